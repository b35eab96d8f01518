import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactional producers of Apache Kafka's Java client behind a pipe: see tests/support/transactions/transaction_java.py.
 *
 * A command is a line of fields between tabs. The answer is lines, then "." and whether it went well: ". ok", or
 * ". error CLASS: REASON". Values are base64. A producer has the NAME it was opened with.
 *
 *   open NAME BOOTSTRAP TRANSACTIONAL_ID [KEY=VALUE]…   begin NAME   send NAME TOPIC PARTITION VALUE   flush NAME
 *   offset NAME GROUP TOPIC PARTITION OFFSET            commit NAME  abort NAME                        close NAME
 *   join MEMBER BOOTSTRAP TOPIC GROUP PROTOCOL          a member that has partitions; what it knows of the group is kept
 *   leave MEMBER                                        and stays known
 *   offset_as NAME MEMBER TOPIC PARTITION OFFSET        with what that member knew when it had joined
 *   work BOOTSTRAP WORKERS IN OUT GROUP PROTOCOL COUNT  consume, transform, produce with random aborts, until COUNT
 *                                                       records are committed; an empty OUT only consumes
 *   consume BOOTSTRAP TOPIC GROUP PROTOCOL COUNT        a member of a group that commits by hand; prints the values
 *   read BOOTSTRAP TOPIC PARTITION ISOLATION            prints where the partition ends, and the values up to there
 */
public class TransactionShell {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final Duration SHORT = Duration.ofMillis(100);
    private static final PrintStream OUT = System.out;
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();
    private static final Map<String, KafkaConsumer<byte[], byte[]>> MEMBERS = new HashMap<>();
    private static final Map<String, ConsumerGroupMetadata> KNOWN = new HashMap<>();

    public static void main(String[] ignored) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        OUT.println(". ok");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                run(line.split("\t", -1));
                OUT.println(". ok");
            } catch (Exception failure) {
                boolean wrapped = failure instanceof java.util.concurrent.ExecutionException;
                OUT.println(". error " + (wrapped ? failure.getCause() : failure).toString().replace('\n', ' '));
            }
        }
    }

    private static void run(String[] fields) throws Exception {
        switch (fields[0]) {
            case "open" -> {
                KafkaProducer<byte[], byte[]> producer =
                    producer(fields[2], fields[3], Arrays.asList(fields).subList(4, fields.length));
                PRODUCERS.put(fields[1], producer);
                producer.initTransactions();
            }
            case "begin" -> PRODUCERS.get(fields[1]).beginTransaction();
            case "send" -> PRODUCERS.get(fields[1]).send(
                new ProducerRecord<>(fields[2], Integer.parseInt(fields[3]), null, Base64.getDecoder().decode(fields[4])));
            case "flush" -> PRODUCERS.get(fields[1]).flush();
            case "offset" -> PRODUCERS.get(fields[1]).sendOffsetsToTransaction(
                Map.of(
                    new TopicPartition(fields[3], Integer.parseInt(fields[4])),
                    new OffsetAndMetadata(Long.parseLong(fields[5]))),
                new ConsumerGroupMetadata(fields[2]));
            case "commit" -> PRODUCERS.get(fields[1]).commitTransaction();
            case "abort" -> PRODUCERS.get(fields[1]).abortTransaction();
            case "close" -> PRODUCERS.remove(fields[1]).close(Duration.ZERO);
            case "join" -> join(fields);
            case "leave" -> MEMBERS.remove(fields[1]).close();
            case "offset_as" -> PRODUCERS.get(fields[1]).sendOffsetsToTransaction(
                Map.of(
                    new TopicPartition(fields[3], Integer.parseInt(fields[4])),
                    new OffsetAndMetadata(Long.parseLong(fields[5]))),
                KNOWN.get(fields[2]));
            case "work" -> work(fields);
            case "consume" -> consume(fields);
            case "read" -> read(fields);
            default -> throw new IllegalArgumentException(fields[0]);
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id, List<String> more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("enable.idempotence", "true");
        settings.put("acks", "all");
        settings.put("linger.ms", "1");
        for (String setting : more) {
            settings.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        }
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String group, String protocol) {
        return consumer(bootstrap, group, protocol, "read_committed");
    }

    private static KafkaConsumer<byte[], byte[]> consumer(
        String bootstrap, String group, String protocol, String isolation) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("group.protocol", protocol);
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.records", "20");
        if (protocol.equals("classic")) {
            settings.put("heartbeat.interval.ms", "300"); // A member learns of a rebalance by its heartbeat.
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void join(String[] fields) {
        KafkaConsumer<byte[], byte[]> member = consumer(fields[2], fields[4], fields[5]);
        MEMBERS.put(fields[1], member);
        member.subscribe(List.of(fields[3]));
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        while (member.assignment().isEmpty()) {
            member.poll(SHORT);
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("no partition was assigned");
            }
        }
        KNOWN.put(fields[1], member.groupMetadata());
    }

    private static void work(String[] fields) throws Exception {
        int workers = Integer.parseInt(fields[2]);
        int count = Integer.parseInt(fields[7]);
        AtomicInteger committed = new AtomicInteger();
        AtomicInteger aborted = new AtomicInteger();
        ExecutorService threads = Executors.newFixedThreadPool(workers);
        List<Future<?>> running = new ArrayList<>();
        for (int worker = 0; worker < workers; worker++) {
            String id = fields[5] + "-" + worker;
            Random dice = new Random(worker);
            running.add(threads.submit(
                () -> worker(fields[1], id, fields[3], fields[4], fields[5], fields[6], count, committed, aborted, dice)));
        }
        threads.shutdown();
        try {
            for (Future<?> one : running) {
                one.get(DEADLINE.toSeconds(), TimeUnit.SECONDS);
            }
        } finally {
            threads.shutdownNow();
        }
        OUT.println(committed.get());
        OUT.println(aborted.get());
    }

    /** The second program: read, change, write, and move the group's position, all in one transaction. */
    private static Void worker(
        String bootstrap, String id, String in, String out, String group, String protocol, int count,
        AtomicInteger committed, AtomicInteger aborted, Random dice) {
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, id, List.of());
             KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap, group, protocol)) {
            producer.initTransactions();
            consumer.subscribe(List.of(in));
            while (committed.get() < count) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("only " + committed.get() + " of " + count + " were committed");
                }
                ConsumerRecords<byte[], byte[]> records = consumer.poll(SHORT);
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    offsets.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                    if (!out.isEmpty()) {
                        producer.send(new ProducerRecord<>(out, record.partition(), null, record.value()));
                    }
                }
                try {
                    producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                    if (dice.nextInt(3) > 0) {
                        producer.commitTransaction();
                        committed.addAndGet(records.count());
                        continue;
                    }
                } catch (CommitFailedException another) {
                    // Its partitions went to another member: the broker refuses the position, and all of it is undone.
                }
                producer.abortTransaction();
                aborted.addAndGet(records.count());
                rewind(consumer);
            }
        }
        return null;
    }

    /** Back to where the group is: what was read since then is read again. */
    private static void rewind(KafkaConsumer<byte[], byte[]> consumer) {
        Set<TopicPartition> mine = consumer.assignment();
        Map<TopicPartition, OffsetAndMetadata> positions = consumer.committed(mine, DEADLINE);
        for (TopicPartition partition : mine) {
            OffsetAndMetadata position = positions.get(partition);
            consumer.seek(partition, position == null ? 0 : position.offset());
        }
    }

    private static void consume(String[] fields) {
        int left = Integer.parseInt(fields[5]);
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(fields[1], fields[3], fields[4])) {
            consumer.subscribe(List.of(fields[2]));
            while (left > 0 && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(SHORT)) {
                    OUT.println(Base64.getEncoder().encodeToString(record.value()));
                    left--;
                }
                consumer.commitSync();
            }
        }
    }

    private static void read(String[] fields) {
        TopicPartition place = new TopicPartition(fields[2], Integer.parseInt(fields[3]));
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(fields[1], "reader", "classic", fields[4])) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long end = consumer.endOffsets(List.of(place)).get(place);
            OUT.println(end);
            while (consumer.position(place) < end) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("stands at " + consumer.position(place) + " of " + end);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(SHORT)) {
                    OUT.println(Base64.getEncoder().encodeToString(record.value()));
                }
            }
        }
    }
}
