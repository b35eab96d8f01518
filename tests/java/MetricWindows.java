/*
 * Apache Kafka's own statistics over windows, fed with what the input says.
 *
 * Reads lines of time and value, or of time and "?"; answers each of the latter with rate, average and greatest value at
 * that time. The arguments are the number of samples and the length of a window in milliseconds.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.stats.Avg;
import org.apache.kafka.common.metrics.stats.Max;
import org.apache.kafka.common.metrics.stats.Rate;

public class MetricWindows {
    public static void main(String[] arguments) throws Exception {
        MetricConfig config = new MetricConfig().samples(Integer.parseInt(arguments[0]))
            .timeWindow(Long.parseLong(arguments[1]), TimeUnit.MILLISECONDS);
        Rate rate = new Rate();
        Avg avg = new Avg();
        Max max = new Max();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            long now = Long.parseLong(parts[0]);
            if (parts[1].equals("?")) {
                System.out.println(rate.measure(config, now) + " " + avg.measure(config, now) + " "
                    + max.measure(config, now));
            } else {
                double value = Double.parseDouble(parts[1]);
                rate.record(config, value, now);
                avg.record(config, value, now);
                max.record(config, value, now);
            }
        }
    }
}
