import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** A Streams application with its defaults: it reads a topic, and with "count" it wants a store with a changelog as well. */
public class Reads {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, "reads-" + args[2]);
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        p.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
        p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        p.put("auto.offset.reset", "earliest");
        StreamsBuilder b = new StreamsBuilder();
        if (args[2].equals("count")) {
            b.<byte[], byte[]>stream(args[1]).groupByKey().count();
        } else {
            b.<byte[], byte[]>stream(args[1]).process(() -> new org.apache.kafka.streams.processor.api.Processor<byte[], byte[], Void, Void>() {
                org.apache.kafka.streams.processor.api.ProcessorContext<Void, Void> context;
                public void init(org.apache.kafka.streams.processor.api.ProcessorContext<Void, Void> c) { context = c; }
                public void process(org.apache.kafka.streams.processor.api.Record<byte[], byte[]> r) {
                    System.out.println("record " + context.recordMetadata().get().partition() + "/" + context.recordMetadata().get().offset());
                }
            });
        }
        KafkaStreams s = new KafkaStreams(b.build(), p);
        s.setUncaughtExceptionHandler(e -> {
            for (Throwable t = e; t != null; t = t.getCause()) System.out.println("failed " + t);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        s.setStateListener((to, from) -> {
            System.out.println("state " + to);
            if (to == KafkaStreams.State.ERROR) Runtime.getRuntime().halt(3);
        });
        Runtime.getRuntime().addShutdownHook(new Thread(s::close));
        s.start();
    }
}
