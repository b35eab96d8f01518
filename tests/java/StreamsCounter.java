import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Kafka Streams counts words, exactly once: lines are read from "lines", words go through a repartition topic, counts live in
 * memory and in a changelog topic, and every new count of a word goes to "counts".
 *
 *   StreamsCounter BOOTSTRAP STATE_DIRECTORY
 *
 * Prints the states it enters, and runs until it is killed.
 */
public class StreamsCounter {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("state.dir", arguments[1]);
        settings.put("application.id", "counter");
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", "1");
        settings.put("num.stream.threads", "1");
        settings.put("commit.interval.ms", "500");
        settings.put("producer.linger.ms", "5"); // So that records are written long before they are committed.
        settings.put("statestore.cache.max.bytes", "0"); // Else only the last count before a commit is written.
        settings.put("repartition.purge.interval.ms", "500");
        settings.put("producer.transaction.timeout.ms", "3000"); // What a killed instance leaves open is in the way for so long,
        settings.put("consumer.session.timeout.ms", "3000"); //     and its partitions are its own for so long.
        settings.put("consumer.heartbeat.interval.ms", "500");
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("reconnect.backoff.max.ms", "200");

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(
                    org.apache.kafka.streams.state.Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues((word, count) -> word + " " + count)
            .to("counts", Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println(now));
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
    }
}
