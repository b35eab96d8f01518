import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

/**
 * Kafka's own placement of replicas. Each line of standard input is a question, each line of standard output its answer.
 *
 * BROKER:RACK,… PARTITIONS FACTOR START FIRST -> the replicas of each partition, as 1,2 2,3 ("-" is no rack).
 */
public class PlacementOracle {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            List<BrokerMetadata> brokers = new ArrayList<>();
            for (String one : words[0].split(",")) {
                String[] parts = one.split(":");
                Optional<String> rack = parts[1].equals("-") ? Optional.empty() : Optional.of(parts[1]);
                brokers.add(new BrokerMetadata(Integer.parseInt(parts[0]), rack));
            }
            try {
                var placed = new TreeMap<>(AdminUtils.assignReplicasToBrokers(
                    brokers, Integer.parseInt(words[1]), Integer.parseInt(words[2]), Integer.parseInt(words[3]),
                    Integer.parseInt(words[4])));
                List<String> shown = new ArrayList<>();
                placed.values().forEach(replicas ->
                    shown.add(String.join(",", replicas.stream().map(String::valueOf).toList())));
                out.append(String.join(" ", shown));
            } catch (RuntimeException refused) {
                out.append("error ").append(refused.getMessage());
            }
            out.append('\n');
        }
        System.out.print(out);
    }
}
