import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.runtime.Connect;
import org.apache.kafka.connect.runtime.distributed.DistributedHerder;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A worker of Kafka Connect with exactly-once support for sources, and a source that counts: 0, 1, 2, … up to LIMIT. What the
 * source knows of its past is the offset Connect kept for it in the transaction of its records.
 *
 *   ConnectCounter BOOTSTRAP TOPIC LIMIT
 *
 * Runs until it is killed. The worker finds the source by META-INF/services.
 */
public class ConnectCounter {
    private static final String NAME = "counter";

    public static void main(String[] arguments) {
        Map<String, String> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", "connect");
        settings.put("exactly.once.source.support", "enabled");
        settings.put("plugin.discovery", "service_load");
        settings.put("key.converter", "org.apache.kafka.connect.storage.StringConverter");
        settings.put("value.converter", "org.apache.kafka.connect.storage.StringConverter");
        for (String kind : List.of("config", "offset", "status")) {
            settings.put(kind + ".storage.topic", "connect-" + kind);
            settings.put(kind + ".storage.replication.factor", "1");
        }
        settings.put("offset.storage.partitions", "2");
        settings.put("status.storage.partitions", "1");
        settings.put("listeners", "http://127.0.0.1:0");
        settings.put("session.timeout.ms", "3000"); // A killed worker's tasks are its own for so long.
        settings.put("heartbeat.interval.ms", "500");
        settings.put("scheduled.rebalance.max.delay.ms", "0");
        settings.put("reconnect.backoff.max.ms", "200");

        Connect<DistributedHerder> worker = new ConnectDistributed().startConnect(settings);
        Map<String, String> source = new HashMap<>();
        source.put("name", NAME);
        source.put("connector.class", Counter.class.getName());
        source.put("tasks.max", "1");
        source.put("exactly.once.support", "required");
        source.put("transaction.boundary", "interval");
        source.put("transaction.boundary.interval.ms", "200");
        source.put("topic", arguments[1]);
        source.put("limit", arguments[2]);
        worker.herder().putConnectorConfig(NAME, source, true, (failure, created) -> {
            System.out.println(failure == null ? "created" : failure.toString());
        });
    }

    public static class Counter extends SourceConnector {
        private Map<String, String> settings;

        @Override
        public void start(Map<String, String> given) {
            settings = given;
        }

        @Override
        public Class<? extends Task> taskClass() {
            return CounterTask.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of(settings);
        }

        @Override
        public void stop() {
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef()
                .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "")
                .define("limit", ConfigDef.Type.INT, ConfigDef.Importance.HIGH, "");
        }

        @Override
        public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
            return ExactlyOnceSupport.SUPPORTED;
        }

        @Override
        public String version() {
            return "1";
        }
    }

    public static class CounterTask extends SourceTask {
        private static final Map<String, String> PARTITION = Map.of("source", "numbers");
        private static final int AT_ONCE = 5;

        private String topic;
        private long limit;
        private long next;

        @Override
        public void start(Map<String, String> settings) {
            topic = settings.get("topic");
            limit = Long.parseLong(settings.get("limit"));
            Map<String, Object> kept = context.offsetStorageReader().offset(PARTITION);
            next = kept == null ? 0 : (Long) kept.get("next");
            System.out.println("task at " + next);
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(5); // Else it is done before anybody can kill it.
            if (next >= limit) {
                return null;
            }
            List<SourceRecord> records = new ArrayList<>();
            for (int number = 0; number < AT_ONCE && next < limit; number++) {
                String value = Long.toString(next++);
                records.add(
                    new SourceRecord(PARTITION, Map.of("next", next), topic, 0, Schema.STRING_SCHEMA, value));
            }
            return records;
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
