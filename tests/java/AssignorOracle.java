import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own assignors. Each line of standard input is a question in JSON, each line of standard output its answer.
 *
 * {"ask": "assign", "assignor", "topics": {name: [[rack, ...], ...]}, "members": [{"id", "topics", "instance", "owned",
 * "generation", "rack", "user_data"}]} -> {member: [[topic, partition], ...]} or {"error": text}.
 * {"ask": "user_data", "assignor", "partitions", "generation"} -> base64 or null.
 * {"ask": "subscription", "version", and a member's fields} -> base64 of the bytes in JoinGroup.
 */
public class AssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        String line;
        while ((line = in.readLine()) != null)
            out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        out.flush();
    }

    private static Object answer(JsonNode question) {
        try {
            switch (question.get("ask").asText()) {
                case "assign": return assign(question);
                case "user_data": return userData(question);
                case "subscription": return base64(ConsumerProtocol.serializeSubscription(
                    subscription(question), (short) question.get("version").asInt()));
                default: throw new IllegalArgumentException(question.toString());
            }
        } catch (Exception | AssertionError failure) {
            return Map.of("error", failure.toString());
        }
    }

    private static ConsumerPartitionAssignor assignor(JsonNode question) {
        switch (question.get("assignor").asText()) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException(question.toString());
        }
    }

    private static Object assign(JsonNode question) {
        List<PartitionInfo> infos = new ArrayList<>();
        Map<String, Node> nodes = new HashMap<>();
        question.get("topics").fields().forEachRemaining(topic -> {
            int index = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks)
                    replicas.add(nodes.computeIfAbsent(rack.asText(), name -> new Node(nodes.size(), "host", 1, name)));
                if (replicas.isEmpty())
                    replicas.add(nodes.computeIfAbsent("", name -> new Node(nodes.size(), "host", 1)));
                Node[] held = replicas.toArray(new Node[0]);
                infos.add(new PartitionInfo(topic.getKey(), index++, held[0], held, held));
            }
        });
        Cluster cluster = new Cluster("c", nodes.values(), infos, Set.of(), Set.of());
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : question.get("members"))
            subscriptions.put(member.get("id").asText(), subscription(member));
        Map<String, Assignment> result =
            assignor(question).assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
        Map<String, Object> shown = new TreeMap<>();
        result.forEach((member, given) -> {
            List<Object> pairs = new ArrayList<>();
            for (TopicPartition one : given.partitions())
                pairs.add(List.of(one.topic(), one.partition()));
            shown.put(member, pairs);
        });
        return shown;
    }

    private static Object userData(JsonNode question) {
        ConsumerPartitionAssignor assignor = assignor(question);
        if (question.hasNonNull("partitions"))
            assignor.onAssignment(
                new Assignment(partitions(question.get("partitions"))),
                new ConsumerGroupMetadata("g", question.get("generation").asInt(), "m", Optional.empty()));
        ByteBuffer data = assignor.subscriptionUserData(Set.of("t"));
        return data == null ? null : base64(data);
    }

    private static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        ByteBuffer userData = member.hasNonNull("user_data")
            ? ByteBuffer.wrap(Base64.getDecoder().decode(member.get("user_data").asText())) : null;
        Subscription subscription = new Subscription(
            topics, userData, partitions(member.get("owned")), member.get("generation").asInt(),
            Optional.ofNullable(member.get("rack").textValue()));
        subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance").textValue()));
        return subscription;
    }

    private static List<TopicPartition> partitions(JsonNode pairs) {
        List<TopicPartition> partitions = new ArrayList<>();
        pairs.forEach(pair -> partitions.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        return partitions;
    }

    private static String base64(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }
}
