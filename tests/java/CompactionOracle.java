// Apache Kafka's own log and cleaner on a partition's directory: the oracle of tests/log/test_compaction_as_kafka.py.
//
// One log per input line:
//   directory segmentBytes indexIntervalBytes deleteRetentionMs nowMs firstDirtyOffset uncleanableOffset mapBytes
// It is opened, cleaned once as if it were nowMs, and closed; the answer is the offset up to which it is clean.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class CompactionOracle {
    /** A clock that stands still. */
    static class Still implements Time {
        final long nowMs;

        Still(long nowMs) {
            this.nowMs = nowMs;
        }

        public long milliseconds() {
            return nowMs;
        }

        public long nanoseconds() {
            return nowMs * 1_000_000L;
        }

        public void sleep(long ms) {
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        }
    }

    /** Does at once what is due at once, and nothing later. */
    static class AtOnce implements Scheduler {
        static final ScheduledThreadPoolExecutor POOL = new ScheduledThreadPoolExecutor(0);

        public void startup() {
        }

        public void shutdown() {
        }

        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (delayMs == 0 && periodMs < 0)
                task.run();
            return POOL.schedule(() -> { }, 1, TimeUnit.DAYS);
        }

        public void resizeThreadPool(int size) {
        }
    }

    public static void main(String[] none) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine())
            System.out.println(clean(line.split(" ")));
        AtOnce.POOL.shutdownNow();
    }

    static long clean(String[] args) throws Exception {
        File directory = new File(args[0]);
        Properties settings = new Properties();
        settings.put("cleanup.policy", "compact");
        settings.put("internal.segment.bytes", args[1]);
        settings.put("index.interval.bytes", args[2]);
        settings.put("delete.retention.ms", args[3]);
        settings.put("file.delete.delay.ms", "0");
        Time time = new Still(Long.parseLong(args[4]));
        UnifiedLog log = UnifiedLog.create(
            directory, new LogConfig(settings), 0L, 0L, new AtOnce(), new BrokerTopicStats(), time, 900_000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600_000, new LogDirFailureChannel(10), true,
            Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        SkimpyOffsetMap map = new SkimpyOffsetMap(Integer.parseInt(args[7]));
        Throttler throttler = new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "cleaner-io", "entries", time);
        Cleaner cleaner = new Cleaner(0, map, 1 << 16, 1 << 20, 0.75, throttler, time, partition -> { });
        LogToClean dirty = new LogToClean(log, Long.parseLong(args[5]), Long.parseLong(args[6]), false);
        Map.Entry<Long, CleanerStats> done = cleaner.clean(dirty);
        log.close();
        return done.getKey();
    }
}
