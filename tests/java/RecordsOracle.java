// Apache Kafka's own record batches, driven line by line: the oracle of tests/core/records/test_kafka_agrees.py.
//
// One question per input line, one answer per output line. A record is written
//   timestamp,key,value[,headerKey,headerValue]…   with bytes as x<hex> and null as -
//
//   B codec type appendTime baseOffset pid epoch sequence txn leaderEpoch record…   build a batch -> hex
//   M pid epoch coordinatorEpoch commit timestamp baseOffset leaderEpoch            an end marker -> hex
//   P hex                                                                           read batches  -> offset:record…
//                                                                       or R and why Kafka refuses them

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;
import org.xerial.snappy.SnappyError;

public class RecordsOracle {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);  // Each answer at once.
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.println(answer(line.split(" ")));
    }

    static String answer(String[] words) {
        switch (words[0]) {
            case "B": return hex(build(words).buffer());
            case "M": return hex(marker(words).buffer());
            case "P": return read(HexFormat.of().parseHex(words[1]));
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    static MemoryRecords build(String[] words) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1024), RecordBatch.CURRENT_MAGIC_VALUE,
            Compression.of(CompressionType.forId(Integer.parseInt(words[1]))).build(),
            TimestampType.forName(words[2]), Long.parseLong(words[4]), Long.parseLong(words[3]), Long.parseLong(words[5]),
            Short.parseShort(words[6]), Integer.parseInt(words[7]), words[8].equals("1"), false, Integer.parseInt(words[9]));
        for (int i = 10; i < words.length; i++) {
            String[] parts = words[i].split(",");
            List<Header> headers = new ArrayList<>();
            for (int h = 3; h < parts.length; h += 2)
                headers.add(new RecordHeader(new String(bytes(parts[h]), StandardCharsets.UTF_8), bytes(parts[h + 1])));
            builder.append(Long.parseLong(parts[0]), bytes(parts[1]), bytes(parts[2]), headers.toArray(new Header[0]));
        }
        return builder.build();
    }

    static MemoryRecords marker(String[] words) {
        ControlRecordType type = words[4].equals("1") ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        return MemoryRecords.withEndTransactionMarker(
            Long.parseLong(words[6]), Long.parseLong(words[5]), Integer.parseInt(words[7]), Long.parseLong(words[1]),
            Short.parseShort(words[2]), new EndTransactionMarker(type, Integer.parseInt(words[3])));
    }

    static String read(byte[] data) {
        StringBuilder out = new StringBuilder("P");
        try {
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                batch.ensureValid();
                try (CloseableIterator<Record> records = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
                    while (records.hasNext()) {
                        Record record = records.next();
                        out.append(' ').append(record.offset()).append(':').append(record.timestamp()).append(',')
                            .append(word(record.key())).append(',').append(word(record.value()));
                        for (Header header : record.headers())
                            out.append(',').append(word(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))))
                                .append(',').append(word(header.value() == null ? null : ByteBuffer.wrap(header.value())));
                    }
                }
            }
        } catch (Exception | SnappyError | OutOfMemoryError refused) {  // Of a bad chunk size or record length.
            return "R " + refused.toString().replace('\n', ' ');
        }
        return out.toString();
    }

    static byte[] bytes(String word) {
        return word.equals("-") ? null : HexFormat.of().parseHex(word.substring(1));
    }

    static String word(ByteBuffer buffer) {
        return buffer == null ? "-" : "x" + hex(buffer);
    }

    static String hex(ByteBuffer buffer) {
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return HexFormat.of().formatHex(copy);
    }
}
