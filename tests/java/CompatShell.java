import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Exit;

/**
 * Apache Kafka's Java client and tools behind a pipe, so that many tests share one JVM.
 *
 * A command is a line of fields between tabs, with lines of data after it where it says so. The answer is lines, then
 * "." and whether it went well: ". ok", or ". error REASON". Bytes are base64; "-" is null.
 *
 *   produce  BOOTSTRAP TOPIC COUNT KEY=VALUE…   then COUNT lines PARTITION KEY VALUE TIMESTAMP [NAME VALUE]…
 *   read     BOOTSTRAP TOPIC PARTITION OFFSET COUNT
 *   offsets  BOOTSTRAP TOPIC PARTITION
 *   at       BOOTSTRAP TOPIC PARTITION TIMESTAMP
 *   tool     CLASS ARGUMENT…                    its output, and its exit status in the last line
 */
public class CompatShell {
    private static final int DEADLINE_SECONDS = 60;
    private static final PrintStream OUT = System.out;
    private static final BufferedReader IN =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private static Integer exitStatus;
    /** Where a tool's words go; null: nowhere. */
    private static OutputStream lent;

    /** Scala's tools remember the System.out they first saw: it stays the same, and what is behind it changes. */
    private static final class Lent extends OutputStream {
        @Override
        public void write(int one) throws IOException {
            if (lent != null) {
                lent.write(one);
            }
        }

        @Override
        public void write(byte[] bytes, int start, int length) throws IOException {
            if (lent != null) {
                lent.write(bytes, start, length);
            }
        }
    }

    private static final class Exited extends RuntimeException {
    }

    /** The first exit counts: some tools catch what ends them here, and then exit again. */
    private static void exit(int status) {
        if (exitStatus == null) {
            exitStatus = status;
            lent = null;
        }
        throw new Exited();
    }

    public static void main(String[] ignored) throws Exception {
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        System.setOut(new PrintStream(new Lent(), true, StandardCharsets.UTF_8));
        OUT.println(". ok");
        for (String line = IN.readLine(); line != null; line = IN.readLine()) {
            String[] fields = line.split("\t", -1);
            try {
                run(fields);
                OUT.println(". ok");
            } catch (Exception failure) {
                Throwable cause = failure.getCause() == null ? failure : failure.getCause();
                OUT.println(". error " + cause.toString().replace('\n', ' '));
            }
            OUT.flush();
        }
    }

    private static void run(String[] fields) throws Exception {
        switch (fields[0]) {
            case "produce" -> produce(fields);
            case "read" -> read(fields);
            case "offsets" -> offsets(fields);
            case "at" -> at(fields);
            case "tool" -> tool(fields);
            default -> throw new IllegalArgumentException(fields[0]);
        }
    }

    private static void produce(String[] fields) throws Exception {
        int count = Integer.parseInt(fields[3]);
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            String[] parts = IN.readLine().split("\t", -1);
            List<Header> headers = new ArrayList<>();
            for (int at = 4; at < parts.length; at += 2) {
                headers.add(new RecordHeader(parts[at], bytes(parts[at + 1])));
            }
            Long timestamp = parts[3].equals("-") ? null : Long.valueOf(parts[3]);
            records.add(new ProducerRecord<>(
                fields[2], Integer.valueOf(parts[0]), timestamp, bytes(parts[1]), bytes(parts[2]), headers));
        }
        Properties settings = new Properties();
        settings.put("bootstrap.servers", fields[1]);
        for (int at = 4; at < fields.length; at++) {
            String[] pair = fields[at].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (ProducerRecord<byte[], byte[]> record : records) {
                futures.add(producer.send(record));
            }
            for (Future<RecordMetadata> future : futures) {
                OUT.println(future.get(DEADLINE_SECONDS, TimeUnit.SECONDS).offset());
            }
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void read(String[] fields) {
        TopicPartition partition = new TopicPartition(fields[2], Integer.parseInt(fields[3]));
        int left = Integer.parseInt(fields[5]);
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_SECONDS);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(fields[1])) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, Long.parseLong(fields[4]));
            while (left > 0 && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    if (left-- > 0) {
                        print(record);
                    }
                }
            }
        }
    }

    private static void print(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder line = new StringBuilder();
        line.append(record.partition()).append('\t').append(record.offset());
        line.append('\t').append(text(record.key())).append('\t').append(text(record.value()));
        line.append('\t').append(record.timestamp());
        line.append('\t').append(record.timestampType() == TimestampType.LOG_APPEND_TIME);
        for (Header header : record.headers()) {
            line.append('\t').append(header.key()).append('\t').append(text(header.value()));
        }
        OUT.println(line);
    }

    private static void offsets(String[] fields) {
        TopicPartition partition = new TopicPartition(fields[2], Integer.parseInt(fields[3]));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(fields[1])) {
            OUT.println(consumer.beginningOffsets(List.of(partition)).get(partition));
            OUT.println(consumer.endOffsets(List.of(partition)).get(partition));
        }
    }

    private static void at(String[] fields) {
        TopicPartition partition = new TopicPartition(fields[2], Integer.parseInt(fields[3]));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(fields[1])) {
            OffsetAndTimestamp found =
                consumer.offsetsForTimes(Map.of(partition, Long.parseLong(fields[4]))).get(partition);
            OUT.println(found == null ? "-" : String.valueOf(found.offset()));
        }
    }

    /** A tool writes to System.out, which is ours to lend, and ends by Exit or by returning. */
    private static void tool(String[] fields) throws Exception {
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        PrintStream errors = System.err;
        exitStatus = null;
        lent = written;
        System.setErr(System.out);
        try {
            Class.forName(fields[1])
                .getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(fields, 2, fields.length));
        } catch (InvocationTargetException failure) {
            if (exitStatus == null) {
                failure.getCause().printStackTrace(System.out);
                exitStatus = -1;
            }
        } finally {
            lent = null;
            System.setErr(errors);
        }
        for (String line : written.toString(StandardCharsets.UTF_8).split("\n")) {
            OUT.println(" " + line);
        }
        OUT.println(exitStatus == null ? 0 : exitStatus);
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }
}
