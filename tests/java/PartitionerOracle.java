import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.LogContext;

/**
 * Kafka's own partitioner. Each line of standard input is a question, each line of standard output its answer.
 *
 * key HEX COUNT -> the partition of a key ("-" is the empty one).
 * load COUNT QUEUED,… PARTITION,… -> the cumulated weights, or none.
 * switch BATCH_SIZE BYTES:FULL,… -> after which records another partition is chosen.
 */
public class PartitionerOracle {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            out.append(switch (words[0]) {
                case "key" -> key(words[1], Integer.parseInt(words[2]));
                case "load" -> load(Integer.parseInt(words[1]), numbers(words[2]), numbers(words[3]));
                case "switch" -> switched(Integer.parseInt(words[1]), words[2].split(","));
                default -> throw new IllegalArgumentException(line);
            }).append('\n');
        }
        System.out.print(out);
    }

    private static String key(String hex, int count) {
        byte[] key = hex.equals("-") ? new byte[0] : HexFormat.of().parseHex(hex);
        return String.valueOf(BuiltInPartitioner.partitionForKey(key, count));
    }

    private static int[] numbers(String text) {
        return Arrays.stream(text.split(",")).mapToInt(Integer::parseInt).toArray();
    }

    private static String load(int count, int[] queued, int[] partitions) throws Exception {
        BuiltInPartitioner partitioner = new BuiltInPartitioner(new LogContext(), "t", 1);
        int length = queued.length;
        partitioner.updatePartitionLoadStats(Arrays.copyOf(queued, count), Arrays.copyOf(partitions, count), length);
        Object stats = field(BuiltInPartitioner.class, "partitionLoadStats").get(partitioner);
        if (stats == null) return "none";
        int[] table = (int[]) field(stats.getClass(), "cumulativeFrequencyTable").get(stats);
        return Arrays.toString(Arrays.copyOf(table, length)).replace(" ", "");
    }

    private static String switched(int batchSize, String[] records) throws Exception {
        List<PartitionInfo> partitions = new ArrayList<>();
        Node node = new Node(0, "h", 1);
        for (int i = 0; i < 10; i++) partitions.add(new PartitionInfo("t", i, node, new Node[] {node}, new Node[] {node}));
        Cluster cluster = new Cluster("c", List.of(node), partitions, Set.of(), Set.of());
        BuiltInPartitioner partitioner = new BuiltInPartitioner(new LogContext(), "t", batchSize);
        Method peek = method("peekCurrentPartitionInfo", Cluster.class);
        Class<?> info = peek.getReturnType();
        Method update = method("updatePartitionInfo", info, int.class, Cluster.class, boolean.class);
        AtomicReference<?> current =
            (AtomicReference<?>) field(BuiltInPartitioner.class, "stickyPartitionInfo").get(partitioner);
        List<Integer> changes = new ArrayList<>();
        for (int i = 0; i < records.length; i++) {
            String[] parts = records[i].split(":");
            Object before = peek.invoke(partitioner, cluster);
            update.invoke(partitioner, before, Integer.parseInt(parts[0]), cluster, parts[1].equals("1"));
            if (current.get() != before) changes.add(i);
        }
        return changes.toString().replace(" ", "");
    }

    private static Field field(Class<?> owner, String name) throws Exception {
        Field found = owner.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }

    private static Method method(String name, Class<?>... kinds) throws Exception {
        Method found = BuiltInPartitioner.class.getDeclaredMethod(name, kinds);
        found.setAccessible(true);
        return found;
    }
}
