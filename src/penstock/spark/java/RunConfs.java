import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.broadcast.Broadcast;

/** The Hadoop configurations that a run of a query has broadcast, on the thread of the query. */
class RunConfs {
    /**
     * How often a broadcast is used. Spark's cleaner keeps a record of every use for as long as the
     * broadcast is referenced, so one that is used without end would be a leak.
     */
    static final int MOST_USES = 100;
    static final int MOST_KEPT = 16;

    private static final String SQL = "org.apache.spark.sql.";
    private static final String FORMATS = SQL + "execution.datasources.";
    /**
     * Whose tasks share a configuration with later batches: the state store sets the id of the run
     * in it, these formats only read it. The tasks of ORC scans set their filter in it.
     */
    private static final String[] USERS = {
        SQL + "execution.streaming.", FORMATS + "csv.CSVFileFormat",
        FORMATS + "json.JsonFileFormat", FORMATS + "parquet.ParquetFileFormat",
        FORMATS + "text.TextFileFormat"};

    final UUID run;
    boolean isOpen;
    private final List kept = new ArrayList();

    RunConfs(UUID run) { this.run = run; }

    /** Which of the known users makes a broadcast, by the innermost class of SQL; null if none. */
    static String userOf(StackTraceElement[] stack) {
        for (StackTraceElement frame : stack) {
            String name = frame.getClassName();
            if (!name.startsWith(SQL)) { continue; }
            for (String user : USERS) {
                if (name.startsWith(user)) { return user; }
            }
            return null;
        }
        return null;
    }

    /** A user's broadcast of an equal configuration; null if there is none, or it was used up. */
    Broadcast find(String user, Configuration conf) {
        for (int i = 0; i < kept.size(); i++) {
            Kept each = (Kept) kept.get(i);
            if (!each.isOf(user, conf)) { continue; }
            if (each.uses < MOST_USES && each.broadcast.isValid()) {
                each.uses++;
                return each.broadcast;
            }
            kept.remove(i);
            return null;
        }
        return null;
    }

    /** Keeps a broadcast; `properties` are those of its configuration before it was broadcast. */
    void add(String user, Configuration conf, java.util.Map properties, Broadcast broadcast) {
        if (kept.size() == MOST_KEPT) { kept.remove(0); }
        kept.add(new Kept(user, conf.getClass(), conf.getClassLoader(), properties, broadcast));
    }

    /** The properties of a configuration at this moment, without substitution of variables. */
    static java.util.Map propertiesOf(Configuration conf) {
        java.util.Map properties = new java.util.HashMap();
        for (java.util.Iterator i = conf.iterator(); i.hasNext();) {
            java.util.Map.Entry property = (java.util.Map.Entry) i.next();
            properties.put(property.getKey(), property.getValue());
        }
        return properties;
    }

    /** A broadcast configuration, with what it was when it was broadcast. */
    private static class Kept {
        private final String user;
        private final Class type;
        private final ClassLoader loader;
        private final java.util.Map properties;
        private final Broadcast broadcast;
        private int uses = 1;

        Kept(
                String user, Class type, ClassLoader loader, java.util.Map properties,
                Broadcast broadcast) {
            this.user = user;
            this.type = type;
            this.loader = loader;
            this.properties = properties;
            this.broadcast = broadcast;
        }

        boolean isOf(String user, Configuration conf) {
            return user.equals(this.user) && conf.getClass() == type && conf.getClassLoader() == loader
                && propertiesOf(conf).equals(properties);
        }
    }
}
