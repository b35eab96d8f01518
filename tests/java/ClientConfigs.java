/*
 * The settings of Apache Kafka's clients: its tables, and what it makes of settings that are given together.
 *
 * Without arguments it prints every setting of producer, consumer and admin client as one JSON object per line. With the
 * argument "probe" it reads lines of a client and its settings (JSON, a tab between) and answers each with the values that
 * hold, as JSON, or with "refused", a tab and the words it refuses them in.
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class ClientConfigs {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            probe();
        } else {
            table("producer", ProducerConfig.configDef());
            table("consumer", ConsumerConfig.configDef());
            table("admin", AdminClientConfig.configDef());
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void table(String kind, ConfigDef settings) throws Exception {
        for (ConfigDef.ConfigKey key : new TreeMap<>(settings.configKeys()).values()) {
            ObjectNode row = JSON.createObjectNode();
            row.put("kind", kind).put("name", key.name).put("type", key.type.name());
            row.put("importance", key.importance.name()).put("internal", key.internalConfig);
            row.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            System.out.println(JSON.writeValueAsString(row));
        }
    }

    private static void probe() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", 2);
            Properties settings = new Properties();
            settings.put("bootstrap.servers", "127.0.0.1:1");
            JsonNode given = JSON.readTree(parts[1]);
            given.fieldNames().forEachRemaining(name -> settings.put(name, given.get(name).asText()));
            try {
                out.println(JSON.writeValueAsString(shown(made(parts[0], settings))));
            } catch (RuntimeException refused) {
                Throwable why = refused.getCause() == null ? refused : refused.getCause();
                out.println("refused\t" + why.getMessage());
            }
        }
    }

    /* Some things are only looked at when the client is built. */
    private static AbstractConfig made(String kind, Properties settings) {
        switch (kind) {
            case "producer":
                settings.put("key.serializer", StringSerializer.class.getName());
                settings.put("value.serializer", StringSerializer.class.getName());
                new KafkaProducer<>(settings);
                return new ProducerConfig(settings);
            case "consumer":
                settings.put("key.deserializer", StringDeserializer.class.getName());
                settings.put("value.deserializer", StringDeserializer.class.getName());
                new KafkaConsumer<>(settings);
                return new ConsumerConfig(settings);
            default:
                Admin.create(settings);
                return new AdminClientConfig(settings);
        }
    }

    private static ObjectNode shown(AbstractConfig settings) {
        ObjectNode row = JSON.createObjectNode();
        for (Map.Entry<String, ?> one : settings.values().entrySet()) {
            row.put(one.getKey(), String.valueOf(one.getValue()));
        }
        return row;
    }
}
