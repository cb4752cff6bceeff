import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import scala.reflect.ClassTag;

/**
 * Broadcasts Hadoop configurations that are equal only once while a thread plans a batch. The node
 * of a stream-stream join broadcasts one whenever it is constructed, which every rule that changes
 * its input does. Everything else is left to the factory that was there before.
 */
public class ConfBroadcasts implements BroadcastFactory {
    private final BroadcastFactory factory;
    private final ThreadLocal planning = new ThreadLocal();

    private ConfBroadcasts(BroadcastFactory factory) { this.factory = factory; }

    /** The one of an application, which is installed if there is none. */
    static ConfBroadcasts of(SparkContext context) throws Throwable {
        // By method handle, as Start.metricsSystem.
        BroadcastManager manager = (BroadcastManager) MethodHandles.publicLookup()
            .findVirtual(
                SparkEnv.class, "broadcastManager", MethodType.methodType(BroadcastManager.class))
            .invokeWithArguments(new Object[] {context.env()});
        Field field = BroadcastManager.class.getDeclaredField("broadcastFactory");
        field.setAccessible(true);
        synchronized (manager) {
            Object before = field.get(manager);
            if (before instanceof ConfBroadcasts) { return (ConfBroadcasts) before; }
            ConfBroadcasts installed = new ConfBroadcasts((BroadcastFactory) before);
            field.set(manager, installed);
            return installed;
        }
    }

    /** Makes this thread share configurations until `end`. */
    public void begin() { planning.set(new ArrayList()); }

    public void end() { planning.remove(); }

    public Broadcast newBroadcast(
            Object value, boolean isLocal, long id, boolean serializedOnly, ClassTag tag) {
        List shared = (List) planning.get();
        if (shared == null || serializedOnly || !(value instanceof SerializableConfiguration)) {
            return factory.newBroadcast(value, isLocal, id, serializedOnly, tag);
        }
        Configuration conf = ((SerializableConfiguration) value).value();
        for (Object each : shared) {
            if (((Shared) each).equalTo(conf)) { return ((Shared) each).broadcast; }
        }
        java.util.Map properties = new java.util.HashMap();
        for (java.util.Iterator i = conf.iterator(); i.hasNext();) {
            java.util.Map.Entry property = (java.util.Map.Entry) i.next();
            properties.put(property.getKey(), property.getValue());
        }
        Broadcast made = factory.newBroadcast(value, isLocal, id, serializedOnly, tag);
        shared.add(new Shared(properties, conf.getClassLoader(), made));
        return made;
    }

    public void initialize(boolean isDriver, SparkConf conf) { factory.initialize(isDriver, conf); }

    public void unbroadcast(long id, boolean removeFromDriver, boolean blocking) {
        factory.unbroadcast(id, removeFromDriver, blocking);
    }

    public void stop() { factory.stop(); }

    /** A broadcast configuration, with its properties at that time. */
    private static class Shared {
        private final java.util.Map properties;
        private final ClassLoader loader;
        private final Broadcast broadcast;

        Shared(java.util.Map properties, ClassLoader loader, Broadcast broadcast) {
            this.properties = properties;
            this.loader = loader;
            this.broadcast = broadcast;
        }

        boolean equalTo(Configuration conf) {
            int count = 0;
            for (java.util.Iterator i = conf.iterator(); i.hasNext(); count++) {
                java.util.Map.Entry property = (java.util.Map.Entry) i.next();
                if (!property.getValue().equals(properties.get(property.getKey()))) { return false; }
            }
            return count == properties.size() && conf.getClassLoader() == loader;
        }
    }
}
