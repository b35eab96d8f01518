/*
 * Apache Kafka's own code for ZooKeeper's nodes as an oracle for ours: Kafka 3.9, the last release that has it.
 *
 * Reads lines "<kind> <name> <hex>" from standard input. Kafka decodes the bytes and encodes what it understood; the answer is
 * that as hex. "sanitize - <hex>" asks for Kafka's spelling of a name in a path. A node that Kafka refuses is answered with
 * "error " and the reason.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import kafka.zk.*;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.zookeeper.data.Stat;

public class ZnodeOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", 3);
            try {
                byte[] bytes = HexFormat.of().parseHex(parts[2]);
                out.println(HexFormat.of().formatHex(again(parts[0], parts[1], bytes)));
            } catch (RuntimeException refused) {
                out.println("error " + refused.toString().replace('\n', ' '));
            }
        }
        out.flush();
    }

    private static byte[] again(String kind, String name, byte[] bytes) {
        switch (kind) {
            case "topic":
                var topic = TopicZNode$.MODULE$.decode(name, bytes);
                return TopicZNode$.MODULE$.encode(topic.topicId(), topic.assignment());
            case "state":
                return TopicPartitionStateZNode$.MODULE$.encode(
                    TopicPartitionStateZNode$.MODULE$.decode(bytes, new Stat()).get());
            case "broker":
                return BrokerIdZNode$.MODULE$.encode(BrokerIdZNode$.MODULE$.decode(Integer.parseInt(name), bytes));
            case "controller":
                int id = (Integer) ControllerZNode$.MODULE$.decode(bytes).get();
                return ControllerZNode$.MODULE$.encode(id, Long.parseLong(name), -1);
            case "feature":
                return FeatureZNode$.MODULE$.encode(FeatureZNode$.MODULE$.decode(bytes));
            case "producer-ids":
                return ProducerIdBlockZNode$.MODULE$.generateProducerIdBlockJson(
                    ProducerIdBlockZNode$.MODULE$.parseProducerIdBlockData(bytes));
            case "configs":
                return ConfigEntityZNode$.MODULE$.encode(ConfigEntityZNode$.MODULE$.decode(bytes));
            case "config-change":
                return ConfigEntityChangeNotificationSequenceZNode$.MODULE$.encode(name);
            case "reassign":
                return ReassignPartitionsZNode$.MODULE$.encode(
                    ReassignPartitionsZNode$.MODULE$.decode(bytes).toOption().get());
            case "isr-change":
                return IsrChangeNotificationSequenceZNode$.MODULE$.encode(
                    IsrChangeNotificationSequenceZNode$.MODULE$.decode(bytes));
            case "preferred":
                return PreferredReplicaElectionZNode$.MODULE$.encode(
                    PreferredReplicaElectionZNode$.MODULE$.decode(bytes));
            case "log-dir-event":
                return LogDirEventNotificationSequenceZNode$.MODULE$.encode(
                    (Integer) LogDirEventNotificationSequenceZNode$.MODULE$.decode(bytes).get());
            case "cluster-id":
                return ClusterIdZNode$.MODULE$.toJson(ClusterIdZNode$.MODULE$.fromJson(bytes));
            case "sanitize":
                return Sanitizer.sanitize(new String(bytes, StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
            default:
                throw new IllegalArgumentException("no such kind: " + kind);
        }
    }
}
