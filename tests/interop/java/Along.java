import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Writes records without keys and reads along in a group, with Kafka's defaults, until its input ends. Says
    "wrote P O", "failed E", "read P O" and "committed". */
public class Along {
    static volatile boolean over = false;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], topic = arguments[1];
        Thread reader = new Thread(() -> read(bootstrap, topic));
        Thread writer = new Thread(() -> write(bootstrap, topic));
        reader.start();
        writer.start();
        while (System.in.read() >= 0) { }
        over = true;
        writer.join();
        reader.join();
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void write(String bootstrap, String topic) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            while (!over) {
                producer.send(new ProducerRecord<>(topic, "x"), (told, error) ->
                    say(error == null ? "wrote " + told.partition() + " " + told.offset() : "failed " + error));
                Thread.sleep(5);
            }
        } catch (InterruptedException error) {
            say("failed " + error);
        }
    }

    static void read(String bootstrap, String topic) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "group.id", topic + "-java", "auto.offset.reset", "earliest",
            "enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!over) {
                ConsumerRecords<String, String> found = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> each : found) {
                    say("read " + each.partition() + " " + each.offset());
                }
                if (!found.isEmpty()) {
                    consumer.commitSync();
                    say("committed");
                }
            }
        }
    }
}
