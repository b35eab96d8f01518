// Apache Kafka's own producer state, driven line by line: the oracle of tests/core/idempotence/test_kafka_agrees.py.
//
// One operation per input line, one answer per output line:
//   N expirationMs verify            a new partition                                     -> ok
//   T nowMs                          set the clock                                       -> ok
//   D origin guard hexBatch          a data batch (origin C client, K coordinator, R replica) -> A | D base last time | E code
//   M origin version pid epoch coordinatorEpoch commit offset time  a marker             -> A | A pid first last aborted lso | E code
//   V pid epoch sequence bump        start a verification                                -> V guard | V none | E code
//   H offset / X nowMs / O offset    high watermark, expiry, log start offset            -> ok
//   S                                write a snapshot                                    -> hex bytes
//   L startOffset nowMs              write a snapshot, forget all, load it again         -> ok
//   R hexBytes                       read a snapshot file                                -> its producers | corrupt
//   ? nowMs                          show everything                                     -> the state

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.*;

public class ProducerStateOracle {
    static final TopicPartition PARTITION = new TopicPartition("oracle", 0);
    static final int TXN_TIMEOUT_MAX_MS = 900_000;
    static long nowMs = 0;

    static final Time CLOCK = new Time() {
        public long milliseconds() { return nowMs; }
        public long nanoseconds() { return nowMs * 1_000_000; }
        public void sleep(long ms) { throw new UnsupportedOperationException(); }
        public void waitObject(Object o, Supplier<Boolean> c, long d) { throw new UnsupportedOperationException(); }
    };

    static Path directory;
    static ProducerStateManagerConfig config;
    static ProducerStateManager state;
    static final List<VerificationGuard> guards = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        directory = Files.createTempDirectory("producer-state");
        PrintStream out = new PrintStream(System.out, false);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                answer = answer(words);
            } catch (ApiException refused) {
                answer = "E " + Errors.forException(refused).code();
            }
            out.println(answer);
        }
        out.flush();
        empty();
        Files.delete(directory);
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "N":
                empty();
                guards.clear();
                config = new ProducerStateManagerConfig(Integer.parseInt(words[1]), words[2].equals("1"));
                state = manager();
                return "ok";
            case "T": nowMs = Long.parseLong(words[1]); return "ok";
            case "D": return data(origin(words[1]), words[2], HexFormat.of().parseHex(words[3]));
            case "M": return marker(words);
            case "V": return verify(Long.parseLong(words[1]), Short.parseShort(words[2]), Integer.parseInt(words[3]), words[4].equals("1"));
            case "H": state.onHighWatermarkUpdated(Long.parseLong(words[1])); return "ok";
            case "X": state.removeExpiredProducers(Long.parseLong(words[1])); return "ok";
            case "O": state.onLogStartOffsetIncremented(Long.parseLong(words[1])); return "ok";
            case "S": {
                File file = new File(directory.toFile(), "shown");
                ProducerStateManager.writeSnapshot(file, state.activeProducers(), false);
                String hex = HexFormat.of().formatHex(Files.readAllBytes(file.toPath()));
                Files.delete(file.toPath());
                return hex;
            }
            case "L": {
                long end = state.mapEndOffset();
                state.takeSnapshot();
                state = manager();
                guards.clear();
                state.truncateAndReload(Long.parseLong(words[1]), end, Long.parseLong(words[2]));
                return "ok";
            }
            case "R": {
                Path file = directory.resolve("given");
                Files.write(file, HexFormat.of().parseHex(words.length > 1 ? words[1] : ""));
                try {
                    return "P " + producers(ProducerStateManager.readSnapshot(file.toFile()));
                } catch (CorruptSnapshotException corrupt) {
                    return "corrupt";
                } finally {
                    Files.delete(file);
                }
            }
            case "?": return show(Long.parseLong(words[1]));
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    static ProducerStateManager manager() throws Exception {
        return new ProducerStateManager(PARTITION, directory.toFile(), TXN_TIMEOUT_MAX_MS, config, CLOCK);
    }

    static void empty() throws Exception {
        try (var files = Files.list(directory)) {
            for (Path file : files.toList()) Files.delete(file);
        }
    }

    static AppendOrigin origin(String letter) {
        return switch (letter) {
            case "C" -> AppendOrigin.CLIENT;
            case "K" -> AppendOrigin.COORDINATOR;
            default -> AppendOrigin.REPLICATION;
        };
    }

    static final Method FIND_DUPLICATE;
    static {
        try {
            FIND_DUPLICATE = ProducerStateEntry.class.getDeclaredMethod("findDuplicateBatch", RecordBatch.class);
            FIND_DUPLICATE.setAccessible(true);
        } catch (ReflectiveOperationException missing) {
            throw new ExceptionInInitializerError(missing);
        }
    }

    // What UnifiedLog does with each batch before it is written, and after.
    @SuppressWarnings("unchecked")
    static String data(AppendOrigin origin, String guard, byte[] bytes) throws Exception {
        RecordBatch batch = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches().iterator().next();
        if (origin == AppendOrigin.CLIENT && batch.hasProducerId() && batch.baseSequence() < 0)
            return "E " + Errors.INVALID_RECORD.code();
        if (batch.hasProducerId()) {
            ProducerStateEntry known = state.activeProducers().get(batch.producerId());
            if (origin == AppendOrigin.CLIENT && known != null) {
                var duplicate = (Optional<BatchMetadata>) FIND_DUPLICATE.invoke(known, batch);
                if (duplicate.isPresent())
                    return "D " + duplicate.get().firstOffset() + " " + duplicate.get().lastOffset() + " " + duplicate.get().timestamp();
            }
            boolean ongoing = known != null && known.currentTxnFirstOffset().isPresent() && known.producerEpoch() == batch.producerEpoch();
            if (origin != AppendOrigin.REPLICATION && batch.isTransactional() && !ongoing) {
                if (known != null && batch.producerEpoch() < known.producerEpoch())
                    throw new InvalidProducerEpochException("older");
                VerificationStateEntry entry = state.verificationStateEntry(batch.producerId());
                VerificationGuard onFile = entry == null ? VerificationGuard.SENTINEL : entry.verificationGuard();
                VerificationGuard given = guard.equals("-") ? VerificationGuard.SENTINEL : guards.get(Integer.parseInt(guard));
                if (config.transactionVerificationEnabled() && !onFile.verify(given))
                    throw new InvalidTxnStateException("not verified");
            }
            apply(batch, origin, (short) -1);
        }
        state.updateMapEndOffset(batch.lastOffset() + 1);
        return "A";
    }

    static String marker(String[] words) {
        ControlRecordType type = words[6].equals("1") ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        MemoryRecords records = MemoryRecords.withEndTransactionMarker(
            Long.parseLong(words[7]), Long.parseLong(words[8]), 0, Long.parseLong(words[3]), Short.parseShort(words[4]),
            new EndTransactionMarker(type, Integer.parseInt(words[5])));
        RecordBatch batch = records.batches().iterator().next();
        String completed = apply(batch, origin(words[1]), Short.parseShort(words[2]));
        state.updateMapEndOffset(batch.lastOffset() + 1);
        return "A" + completed;
    }

    static String apply(RecordBatch batch, AppendOrigin origin, short transactionVersion) {
        Map<Long, ProducerAppendInfo> updates = new HashMap<>();
        Optional<LogOffsetMetadata> first = batch.isTransactional() ? Optional.of(new LogOffsetMetadata(batch.baseOffset(), 0, 0)) : Optional.empty();
        Optional<CompletedTxn> completed = UnifiedLog.updateProducers(state, batch, updates, first, origin, transactionVersion);
        updates.values().forEach(state::update);
        if (completed.isEmpty()) return "";
        CompletedTxn txn = completed.get();
        long lastStableOffset = state.lastStableOffset(txn);
        state.completeTxn(txn);
        return " " + txn.producerId() + " " + txn.firstOffset() + " " + txn.lastOffset() + " " + (txn.isAborted() ? 1 : 0) + " " + lastStableOffset;
    }

    static String verify(long producerId, short epoch, int sequence, boolean bump) {
        ProducerStateEntry known = state.activeProducers().get(producerId);
        if (known != null && epoch < known.producerEpoch()) throw new InvalidProducerEpochException("older");
        if (known != null && known.currentTxnFirstOffset().isPresent() && known.producerEpoch() == epoch) return "V none";
        VerificationGuard guard = state.maybeCreateVerificationStateEntry(producerId, sequence, epoch, bump).verificationGuard();
        if (!guards.contains(guard)) guards.add(guard);
        return "V " + guards.indexOf(guard);
    }

    static String show(long now) {
        return "P " + producers(state.activeProducers().values())
            + " unstable=" + text(state.firstUnstableOffset().map(o -> o.messageOffset))
            + " undecided=" + text(optional(state.firstUndecidedOffset()))
            + " end=" + state.mapEndOffset()
            + " late=" + (state.hasLateTransaction(now) ? 1 : 0);
    }

    static String producers(Collection<ProducerStateEntry> entries) {
        TreeMap<Long, String> shown = new TreeMap<>(Comparator.naturalOrder());
        for (ProducerStateEntry entry : entries) {
            String batches = entry.batchMetadata().stream()
                .map(b -> b.firstSeq() + ":" + b.lastSeq() + ":" + b.lastOffset() + ":" + b.offsetDelta() + ":" + b.timestamp())
                .collect(Collectors.joining(","));
            shown.put(entry.producerId(), entry.producerId() + "/" + entry.producerEpoch() + "/" + entry.coordinatorEpoch() + "/"
                + entry.lastTimestamp() + "/" + text(optional(entry.currentTxnFirstOffset())) + "/[" + batches + "]");
        }
        return String.join(";", shown.values());
    }

    static Optional<Long> optional(OptionalLong value) {
        return value.isPresent() ? Optional.of(value.getAsLong()) : Optional.empty();
    }

    static String text(Optional<Long> value) {
        return value.map(String::valueOf).orElse("none");
    }
}
