/*
 * Apache Kafka's table of error codes, one JSON object per line: the code, the class of its exception with its parents up
 * to KafkaException, and whether the same request may be tried again.
 */

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

public class ErrorTable {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        for (Errors error : Errors.values()) {
            if (error.exception() == null) {
                continue;
            }
            ObjectNode row = json.createObjectNode();
            row.put("code", error.code()).put("name", error.name());
            row.put("retriable", error.exception() instanceof RetriableException);
            ArrayNode classes = row.putArray("classes");
            Class<?> one = error.exception().getClass();
            for (; one != KafkaException.class; one = one.getSuperclass()) {
                classes.add(one.getSimpleName());
            }
            classes.add("KafkaException");
            System.out.println(json.writeValueAsString(row));
        }
    }
}
