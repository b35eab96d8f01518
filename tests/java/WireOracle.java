/*
 * Apache Kafka's own generated messages as an oracle for ours.
 *
 * Reads lines from standard input, answers each with one line:
 *   json  <Message> <version> <json>   the message built from JSON  -> <hex>
 *   bytes <Message> <version> <hex>    the message read from bytes  -> <hex written again> TAB <json as Kafka reads it>
 * A line that Kafka refuses is answered with "error " and the reason.
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

public class WireOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", 4);
            try {
                out.println(answer(parts[0], parts[1], Short.parseShort(parts[2]), parts.length > 3 ? parts[3] : ""));
            } catch (InvocationTargetException refused) {
                out.println("error " + refused.getCause());
            } catch (RuntimeException refused) {
                out.println("error " + refused);
            }
        }
        out.flush();
    }

    private static String answer(String what, String name, short version, String content) throws Exception {
        Class<?> data = find(name);
        Class<?> converter = Class.forName(data.getName() + "JsonConverter");
        if (what.equals("json")) {
            Object message = converter.getMethod("read", JsonNode.class, short.class)
                .invoke(null, JSON.readTree(content), version);
            return hex((Message) message, version);
        }
        Constructor<?> reading = data.getConstructor(Readable.class, short.class);
        ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(content));
        Message message = (Message) reading.newInstance(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            return "error " + buffer.remaining() + " bytes are left over";
        }
        Object json = converter.getMethod("write", data, short.class, boolean.class).invoke(null, message, version, true);
        return hex(message, version) + "\t" + JSON.writeValueAsString(json);
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String candidate : PACKAGES) {
            for (String suffix : new String[] {"Data", ""}) {
                try {
                    return Class.forName(candidate + name + suffix);
                } catch (ClassNotFoundException next) {
                    continue;
                }
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static String hex(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();  // As every release of Kafka has it.
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        buffer.flip();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
