/*
 * Apache Kafka's own tables of settings, one JSON object per line: what ours is generated from and held against.
 *
 * Prints every topic setting (scope "topic") and every broker setting (scope "broker") with its type, default,
 * validator and importance; for a topic's the broker settings it falls back to, for a broker's how it may be changed
 * while running.
 *
 * With the argument "probe" it reads lines of scope, name and value (tabs between) and answers each with the value as
 * Kafka understands it ("ok", tab, text) or with the words Kafka refuses it in ("refused", tab, text).
 */

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

public class ConfigTables {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            probe();
            return;
        }
        for (ConfigDef.ConfigKey key : new TreeMap<>(LogConfig.configKeys()).values()) {
            ObjectNode row = row("topic", key);
            ArrayNode synonyms = row.putArray("synonyms");
            for (ConfigSynonym synonym
                    : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(key.name, List.of())) {
                synonyms.add(synonym.name());
            }
            System.out.println(JSON.writeValueAsString(row));
        }
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (ConfigDef.ConfigKey key : new TreeMap<>(AbstractKafkaConfig.CONFIG_DEF.configKeys()).values()) {
            ObjectNode row = row("broker", key);
            row.put("mode", modes.getOrDefault(key.name, "read-only"));
            ArrayNode synonyms = row.putArray("synonyms");
            for (String synonym : DynamicBrokerConfig.brokerConfigSynonyms(key.name, true)) {
                if (!synonym.equals(key.name)) {
                    synonyms.add(synonym);
                }
            }
            System.out.println(JSON.writeValueAsString(row));
        }
    }

    private static void probe() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", 3);
            ConfigDef.ConfigKey key = parts[0].equals("topic")
                ? LogConfig.configKeys().get(parts[1])
                : AbstractKafkaConfig.CONFIG_DEF.configKeys().get(parts[1]);
            try {
                Object value = ConfigDef.parseType(key.name, parts[2], key.type);
                if (key.validator != null) {
                    key.validator.ensureValid(key.name, value);
                }
                out.println("ok\t" + ConfigDef.convertToString(value, key.type));
            } catch (ConfigException refused) {
                out.println("refused\t" + refused.getMessage());
            }
        }
        out.flush();
    }

    private static ObjectNode row(String scope, ConfigDef.ConfigKey key) {
        ObjectNode row = JSON.createObjectNode();
        row.put("scope", scope).put("name", key.name).put("type", key.type.name());
        row.put("importance", key.importance.name()).put("internal", key.internalConfig);
        row.put("required", !key.hasDefault());
        row.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        row.put("validator", key.validator == null ? null : key.validator.toString());
        row.put("validator_class", key.validator == null ? null : key.validator.getClass().getSimpleName());
        return row;
    }
}
