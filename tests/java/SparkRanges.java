import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import org.apache.spark.sql.kafka010.KafkaOffsetRangeCalculator;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** How Spark's own Kafka connector divides ranges: a case per line, "min max topic:partition:start:end ...", - is none. */
public class SparkRanges {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ");
            Option<Object> min = words[0].equals("-") ? Option.empty() : Option.apply(Integer.valueOf(words[0]));
            Option<Object> max = words[1].equals("-") ? Option.empty() : Option.apply(Long.valueOf(words[1]));
            List<KafkaOffsetRange> ranges = new ArrayList<>();
            for (int at = 2; at < words.length; at++) {
                String[] part = words[at].split(":");
                TopicPartition where = new TopicPartition(part[0], Integer.parseInt(part[1]));
                ranges.add(
                    new KafkaOffsetRange(where, Long.parseLong(part[2]), Long.parseLong(part[3]), Option.empty()));
            }
            KafkaOffsetRangeCalculator calculator = new KafkaOffsetRangeCalculator(min, max);
            List<String> shown = new ArrayList<>();
            CollectionConverters.asJava(
                    calculator.getRanges(
                        CollectionConverters.asScala(ranges).toSeq(), calculator.getRanges$default$2()))
                .forEach(one -> shown.add(
                    one.topic() + ":" + one.partition() + ":" + one.fromOffset() + ":" + one.untilOffset()));
            System.out.println(String.join(" ", shown));
        }
    }
}
