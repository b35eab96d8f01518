import java.io.FileWriter;
import java.io.PrintWriter;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One member of a group with Apache Kafka's Java client, and its diary: see tests/support/groups/group_process.py, which does the same.
 *
 *   GroupMember BOOTSTRAP GROUP TOPIC ASSIGNOR DIARY SESSION_MS
 *
 * The assignor "consumer" means the protocol of KIP-848, where the broker assigns.
 */
public class GroupMember {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private static PrintWriter diary;
    private static final TreeSet<Integer> OWNED = new TreeSet<>();

    private static synchronized void write(String kind, String more) {
        diary.println("{\"at\": " + System.nanoTime() + ", \"kind\": \"" + kind + "\"" + more + "}");
        diary.flush();
    }

    private static List<Integer> indexes(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).sorted().collect(Collectors.toList());
    }

    private static void gone(String kind, Collection<TopicPartition> partitions) {
        OWNED.removeAll(indexes(partitions));
        write(kind, ", \"partitions\": " + indexes(partitions));
    }

    public static void main(String[] arguments) throws Exception {
        diary = new PrintWriter(new FileWriter(arguments[4], true));
        int sessionMs = Integer.parseInt(arguments[5]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "50");
        settings.put("max.poll.interval.ms", "15000");
        settings.put("reconnect.backoff.max.ms", "500");
        if (arguments[3].equals("consumer")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("partition.assignment.strategy", ASSIGNORS.get(arguments[3]));
            settings.put("session.timeout.ms", Integer.toString(sessionMs));
            settings.put("heartbeat.interval.ms", Integer.toString(sessionMs / 6));
        }
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                closed.await();
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(arguments[2]), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                OWNED.addAll(indexes(partitions));
                write("owned", ", \"member\": \"" + consumer.groupMetadata().memberId() + "\", \"generation\": "
                    + consumer.groupMetadata().generationId() + ", \"partitions\": " + OWNED);
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                gone("revoked", partitions);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                gone("lost", partitions);
            }
        });
        try {
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                for (TopicPartition partition : records.partitions()) {
                    List<Long> offsets = records.records(partition).stream()
                        .map(ConsumerRecord::offset).collect(Collectors.toList());
                    write("processed", ", \"partition\": " + partition.partition() + ", \"offsets\": " + offsets);
                }
                if (!records.isEmpty()) {
                    try {
                        consumer.commitSync(Duration.ofSeconds(10));
                    } catch (WakeupException stopping) {
                        throw stopping;
                    } catch (KafkaException failed) {
                        write("commit failed", "");
                    }
                }
            }
        } catch (WakeupException stopping) {
            consumer.commitSync(Duration.ofSeconds(10));
        } finally {
            consumer.close();
            write("closed", "");
            closed.countDown();
        }
    }
}
