/*
 * How Apache Kafka counts the errors of a response: what its brokers add to ErrorsPerSec.
 *
 * Reads lines "<api key> <version> <hex of the response's body>" from standard input and answers each with one line:
 * "code=count" for every error, in the order of the codes; or "error " and the reason.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractResponse;

public class ErrorCounts {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            try {
                ByteBufferAccessor body = new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(parts[2])));
                ApiKeys api = ApiKeys.forId(Integer.parseInt(parts[0]));
                AbstractResponse response = read(api, body, Short.parseShort(parts[1]));
                Map<Short, Integer> sorted = new TreeMap<>();
                for (Map.Entry<Errors, Integer> entry : response.errorCounts().entrySet()) {
                    sorted.put(entry.getKey().code(), entry.getValue());
                }
                StringBuilder text = new StringBuilder();
                sorted.forEach((code, count) -> text.append(code).append('=').append(count).append(' '));
                out.println(text.toString().trim());
            } catch (RuntimeException refused) {
                out.println("error " + refused);
            }
        }
        out.flush();
    }

    /** Kafka 3.9 reads from the buffer itself, Kafka 4 through an accessor. */
    private static AbstractResponse read(ApiKeys api, ByteBufferAccessor body, short version) throws Exception {
        for (Method method : AbstractResponse.class.getMethods()) {
            if (method.getName().equals("parseResponse") && method.getParameterCount() == 3) {
                boolean isOld = method.getParameterTypes()[1] == ByteBuffer.class;
                try {
                    return (AbstractResponse) method.invoke(null, api, isOld ? body.buffer() : body, version);
                } catch (InvocationTargetException refused) {
                    throw refused.getCause() instanceof RuntimeException known ? known : refused;
                }
            }
        }
        throw new IllegalStateException("no parseResponse");
    }
}
