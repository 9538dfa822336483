import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own producer and consumer, for a test that says what to do in its arguments. */
public class Transactions {
    static String bootstrap;
    static String topic;
    static String name;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[1];
        topic = arguments[2];
        name = arguments[3];
        switch (arguments[0]) {
            case "write" -> write(Integer.parseInt(arguments[4]));
            case "read" -> read(arguments[4], Long.parseLong(arguments[5]));
            case "fence" -> fence();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    static KafkaProducer<String, String> producer() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", name);
        settings.put("linger.ms", "0");
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    /** Transactions of ten records each with an offset; every third is aborted. */
    static void write(int transactions) throws Exception {
        try (KafkaProducer<String, String> producer = producer()) {
            for (int number = 0; number < transactions; number++) {
                producer.beginTransaction();
                for (int record = 0; record < 10; record++) {
                    producer.send(new ProducerRecord<>(topic, number + " " + record));
                }
                producer.flush();
                producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(number + 1)),
                    new ConsumerGroupMetadata(name));
                if (number % 3 == 2) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
    }

    /** Prints what a reader of that isolation level sees up to an offset. */
    static void read(String isolation, long end) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", isolation);
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            while (consumer.position(place) < end) {
                consumer.poll(Duration.ofMillis(500)).forEach(record -> System.out.println(record.value()));
            }
        }
    }

    /** A second producer with the same id takes over; the first must notice. */
    static void fence() throws Exception {
        KafkaProducer<String, String> old = producer();
        old.beginTransaction();
        old.send(new ProducerRecord<>(topic, "zombie")).get();
        try (KafkaProducer<String, String> newer = producer()) {
            newer.beginTransaction();
            newer.send(new ProducerRecord<>(topic, "new"));
            newer.commitTransaction();
        }
        try {
            old.send(new ProducerRecord<>(topic, "zombie again"));
            old.commitTransaction();
            System.out.println("committed");
        } catch (ProducerFencedException | InvalidProducerEpochException error) {
            System.out.println("fenced");
        }
        old.close(Duration.ZERO);
    }
}
