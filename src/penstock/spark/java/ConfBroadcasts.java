import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import scala.reflect.ClassTag;

/**
 * Broadcasts equal Hadoop configurations once for a run of a query, instead of several times for
 * each of its batches: stateful operators and file scans broadcast one whenever they are planned or
 * executed. Everything else is left to the factory that was there before. See docs/adr/0034.
 */
public class ConfBroadcasts implements BroadcastFactory {
    private final BroadcastFactory factory;
    private final ThreadLocal runs = new ThreadLocal();

    private ConfBroadcasts(BroadcastFactory factory) { this.factory = factory; }

    /** The one of an application. If it cannot be installed, nothing is shared. */
    static ConfBroadcasts of(SparkContext context) {
        try {
            return installed(context);
        } catch (Throwable notPossible) {
            return new ConfBroadcasts(null);
        }
    }

    private static ConfBroadcasts installed(SparkContext context) throws Throwable {
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

    /** Makes this thread share the configurations of a run until `end`. */
    public void begin(UUID run) {
        RunConfs current = (RunConfs) runs.get();
        if (current == null || !current.run.equals(run)) {
            current = new RunConfs(run);
            runs.set(current);
        }
        current.isOpen = true;
    }

    /** The configurations are kept for the next `begin` of the same run. */
    public void end() { ((RunConfs) runs.get()).isOpen = false; }

    public Broadcast newBroadcast(
            Object value, boolean isLocal, long id, boolean serializedOnly, ClassTag tag) {
        RunConfs current = (RunConfs) runs.get();
        if (current == null || !current.isOpen || serializedOnly
                || !(value instanceof SerializableConfiguration)) {
            return factory.newBroadcast(value, isLocal, id, serializedOnly, tag);
        }
        String user = RunConfs.userOf(new Throwable().getStackTrace());
        if (user == null) { return factory.newBroadcast(value, isLocal, id, serializedOnly, tag); }
        Configuration conf = ((SerializableConfiguration) value).value();
        Broadcast known = current.find(user, conf);
        if (known != null) { return known; }
        java.util.Map properties = RunConfs.propertiesOf(conf);
        Broadcast made = factory.newBroadcast(value, isLocal, id, serializedOnly, tag);
        current.add(user, conf, properties, made);
        return made;
    }

    public void initialize(boolean isDriver, SparkConf conf) { factory.initialize(isDriver, conf); }

    public void unbroadcast(long id, boolean removeFromDriver, boolean blocking) {
        factory.unbroadcast(id, removeFromDriver, blocking);
    }

    public void stop() { factory.stop(); }
}
