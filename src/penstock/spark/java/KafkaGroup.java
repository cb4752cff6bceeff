import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import scala.collection.immutable.Map;
import scala.collection.mutable.HashMap;

/**
 * Commits offsets to Kafka consumer groups with the Kafka client of a source's class loader. It is
 * called by reflection, since Spark's own class path does not have it.
 */
public class KafkaGroup {
    private static final String ADMIN = "org.apache.kafka.clients.admin.Admin";

    private final ClassLoader loader;
    private final Class adminClass;
    private final Object admin;

    /** `options` are those of the client, keys and values alternating. */
    KafkaGroup(Object stream, String options) throws Throwable {
        loader = stream.getClass().getClassLoader();
        adminClass = loader.loadClass(ADMIN);
        HashMap config = new HashMap();
        String[] texts = Records.fields(options);
        for (int i = 0; i + 1 < texts.length; i += 2) {
            config.put(texts[i], texts[i + 1]);
        }
        Class[] one = new Class[] {java.util.Map.class};
        Object[] authenticated = new Object[] {withDelegationToken(Maps.immutable(config))};
        admin = invoke(adminClass, "create", one, null, authenticated);
    }

    /**
     * Commits the offsets of some partitions to a group: topic, partition, offset in turn. Returns
     * null, or the class and the message of the error.
     */
    public String commit(String group, String offsets, long timeoutMs) {
        try {
            Object[] arguments = new Object[] {group, partitions(Records.fields(offsets))};
            Class[] types = new Class[] {String.class, java.util.Map.class};
            Object result =
                invoke(adminClass, "alterConsumerGroupOffsets", types, admin, arguments);
            Object future =
                invoke(result.getClass(), "all", new Class[0], result, new Object[0]);
            types = new Class[] {long.class, TimeUnit.class};
            arguments = new Object[] {Long.valueOf(timeoutMs), TimeUnit.MILLISECONDS};
            invoke(loader.loadClass("org.apache.kafka.common.KafkaFuture"), "get", types, future,
                arguments);
            return null;
        } catch (ExecutionException failed) {
            return described(failed.getCause());
        } catch (Throwable failed) {
            return described(failed);
        }
    }

    /** Closes the client; calls that are under way fail after the time. */
    public void close(long timeoutMs) throws Throwable {
        Class[] types = new Class[] {Duration.class};
        invoke(adminClass, "close", types, admin, new Object[] {Duration.ofMillis(timeoutMs)});
    }

    private java.util.Map partitions(String[] fields) throws Throwable {
        Constructor partition = loader.loadClass("org.apache.kafka.common.TopicPartition")
            .getConstructor(new Class[] {String.class, int.class});
        Constructor offset =
            loader.loadClass("org.apache.kafka.clients.consumer.OffsetAndMetadata")
            .getConstructor(new Class[] {long.class});
        java.util.Map offsets = new java.util.HashMap();
        for (int i = 0; i + 2 < fields.length; i += 3) {
            offsets.put(
                partition.newInstance(new Object[] {fields[i], Integer.valueOf(fields[i + 1])}),
                offset.newInstance(new Object[] {Long.valueOf(fields[i + 2])}));
        }
        return offsets;
    }

    /** Adds the delegation token of the cluster, if Spark has one, as the Kafka source does. */
    private java.util.Map withDelegationToken(Map config) throws Throwable {
        Class updaterClass = loader.loadClass("org.apache.spark.kafka010.KafkaConfigUpdater");
        Object updater = updaterClass
            .getConstructor(new Class[] {String.class, Map.class})
            .newInstance(new Object[] {"source", config});
        Class[] none = new Class[0];
        invoke(updaterClass, "setAuthenticationConfigIfNeeded", none, updater, new Object[0]);
        return (java.util.Map) invoke(updaterClass, "build", none, updater, new Object[0]);
    }

    private static Object invoke(
            Class of, String method, Class[] types, Object target, Object[] arguments)
            throws Throwable {
        try {
            return of.getMethod(method, types).invoke(target, arguments);
        } catch (InvocationTargetException failed) {
            throw failed.getCause();
        }
    }

    private static String described(Throwable error) {
        return error.getClass().getSimpleName() + ": " + error.getMessage();
    }
}
