/*
 * The calls of Apache Kafka's admin client, one name per line.
 */

import java.lang.reflect.Method;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;

public class AdminCalls {
    public static void main(String[] arguments) {
        TreeSet<String> names = new TreeSet<>();
        for (Method one : Admin.class.getMethods()) {
            names.add(one.getName());
        }
        names.forEach(System.out::println);
    }
}
