import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic with Kafka's own consumer, without a group: bootstrap, topic, partitions, records in it.
 *
 * <p>Prints "records bytes seconds" from the first records that came to the last: connecting is not counted, nor are
 * the records that came first.
 */
public class AssignedConsumer {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("auto.offset.reset", "earliest");
        List<TopicPartition> partitions = IntStream.range(0, Integer.parseInt(arguments[2]))
                .mapToObj(number -> new TopicPartition(arguments[1], number)).toList();
        long wanted = Long.parseLong(arguments[3]);
        long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            long records = 0;
            long before = 0;
            long bytes = 0;
            long start = 0;
            while (records < wanted && System.nanoTime() < deadline) {
                var polled = consumer.poll(Duration.ofMillis(500));
                records += polled.count();
                if (start == 0) {
                    before = records;
                    start = records == 0 ? 0 : System.nanoTime();
                } else {
                    for (var record : polled) {
                        bytes += record.value().length;
                    }
                }
            }
            double seconds = (System.nanoTime() - start) / 1e9;
            if (records != wanted) {
                throw new IllegalStateException(records + " of " + wanted + " records came");
            }
            System.out.println((records - before) + " " + bytes + " " + seconds);
        }
    }
}
