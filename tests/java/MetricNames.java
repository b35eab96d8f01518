/*
 * The names of the metrics a Java producer and consumer have before they did anything: group and name, one per line.
 */

import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class MetricNames {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", "127.0.0.1:1");
        TreeSet<String> names = new TreeSet<>();
        new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer()).metrics().keySet()
            .forEach(one -> names.add(one.group() + " " + one.name()));
        settings.put("group.id", "names");
        new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer()).metrics().keySet()
            .forEach(one -> names.add(one.group() + " " + one.name()));
        names.forEach(System.out::println);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
