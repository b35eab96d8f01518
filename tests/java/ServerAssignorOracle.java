// Apache Kafka's server-side assignors and metadata hashes, asked in JSON: the oracle of
// tests/core/groups/consumer/test_kafka_agrees.py.
//
// Input: a JSON array of cases, output: a JSON array of answers.
//   {"assignor": "uniform", "homogeneous": true, "topics": {"<hex id>": partitions},
//    "members": [{"id", "instance", "topics": ["<hex id>"], "assigned": [["<hex id>", [0, 1]]]}]}
//       -> {"<member>": {"<hex id>": [partitions]}}
//   {"regex": "a.*", "names": ["abc"]}  -> {"flaw": why it is none or null, "names": those that match}
//   {"hash": {"name", "id": "<hex id>", "partitions": 3}}  -> the topic's hash, {"group": [["name", hash]]} -> the group's

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;

import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class ServerAssignorOracle {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode one : JSON.readTree(System.in)) {
            if (one.has("hash")) {
                JsonNode topic = one.get("hash");
                answers.add(Utils.computeTopicHash(topic.get("name").asText(), image(topic)));
            } else if (one.has("group")) {
                Map<String, Long> hashes = new HashMap<>();
                one.get("group").forEach(pair -> hashes.put(pair.get(0).asText(), pair.get(1).asLong()));
                answers.add(Utils.computeGroupHash(hashes));
            } else if (one.has("regex")) {
                answers.add(match(one));
            } else {
                answers.add(assign(one));
            }
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    static JsonNode assign(JsonNode one) {
        Map<Uuid, Integer> counts = new HashMap<>();
        one.get("topics").fields().forEachRemaining(entry -> counts.put(id(entry.getKey()), entry.getValue().asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (JsonNode member : one.get("members")) {
            Set<Uuid> topics = new java.util.LinkedHashSet<>();
            member.get("topics").forEach(topic -> topics.add(id(topic.asText())));
            Map<Uuid, Set<Integer>> assigned = new HashMap<>();
            for (JsonNode pair : member.get("assigned")) {
                Uuid topic = id(pair.get(0).asText());
                List<Integer> partitions = new ArrayList<>();
                pair.get(1).forEach(partition -> partitions.add(partition.asInt()));
                assigned.put(topic, new HashSet<>(partitions));
                partitions.forEach(partition ->
                    owners.computeIfAbsent(topic, key -> new HashMap<>()).put(partition, member.get("id").asText()));
            }
            Optional<String> instance =
                member.get("instance").isNull() ? Optional.empty() : Optional.of(member.get("instance").asText());
            members.put(member.get("id").asText(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, topics, new Assignment(assigned)));
        }
        ConsumerGroupPartitionAssignor assignor =
            one.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        SubscriptionType type =
            one.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber describer = (SubscribedTopicDescriber) Proxy.newProxyInstance(
            ServerAssignorOracle.class.getClassLoader(), new Class<?>[] {SubscribedTopicDescriber.class},
            (proxy, method, values) -> method.getName().equals("numPartitions") ? counts.getOrDefault(values[0], -1) : Set.of());
        GroupAssignment result = assignor.assign(
            new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners, Optional.empty()), describer);
        ObjectNode answer = JSON.createObjectNode();
        result.members().forEach((memberId, assignment) -> {
            ObjectNode own = answer.putObject(memberId);
            assignment.partitions().forEach((topic, partitions) -> {
                ArrayNode list = own.putArray(hex(topic));
                new TreeSet<>(partitions).forEach(list::add);
            });
        });
        return answer;
    }

    static JsonNode match(JsonNode one) {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode names = answer.putArray("names");
        try {
            Pattern pattern = Pattern.compile(one.get("regex").asText());
            answer.putNull("flaw");
            TreeSet<String> matching = new TreeSet<>();
            one.get("names").forEach(name -> {
                if (pattern.matcher(name.asText()).matches()) matching.add(name.asText());
            });
            matching.forEach(names::add);
        } catch (PatternSyntaxException refused) {
            answer.put("flaw", refused.getDescription());
        }
        return answer;
    }

    static CoordinatorMetadataImage image(JsonNode topic) {
        ClassLoader loader = ServerAssignorOracle.class.getClassLoader();
        Object metadata = Proxy.newProxyInstance(
            loader, new Class<?>[] {CoordinatorMetadataImage.TopicMetadata.class}, (proxy, method, values) -> switch (method.getName()) {
                case "id" -> id(topic.get("id").asText());
                case "name" -> topic.get("name").asText();
                case "partitionCount" -> topic.get("partitions").asInt();
                case "partitionRacks" -> new ArrayList<String>();
                default -> throw new UnsupportedOperationException(method.getName());
            });
        return (CoordinatorMetadataImage) Proxy.newProxyInstance(
            loader, new Class<?>[] {CoordinatorMetadataImage.class}, (proxy, method, values) -> {
                if (method.getName().equals("topicMetadata")) return Optional.of(metadata);
                throw new UnsupportedOperationException(method.getName());
            });
    }

    static Uuid id(String hex) {
        ByteBuffer sixteen = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
        return new Uuid(sixteen.getLong(), sixteen.getLong());
    }

    static String hex(Uuid id) {
        return HexFormat.of().formatHex(
            ByteBuffer.allocate(16).putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()).array());
    }
}
