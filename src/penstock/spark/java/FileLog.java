import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/**
 * The log of a file source or file sink. Its expired entries are deleted when it is compacted.
 *
 * <p>Spark deletes them whenever it adds an entry. To find them it lists the directory of the log,
 * which has the entries of the last ten minutes at least.
 */
public class FileLog {
    private final CompactibleFileStreamLog log;
    private final Method deleteExpired;

    private FileLog(CompactibleFileStreamLog log, Method deleteExpired) {
        this.log = log;
        this.deleteExpired = deleteExpired;
    }

    /**
     * Takes over the deletion of entries from Spark. Returns null if the log deletes none, if it may
     * keep fewer than two compactions, or if the owner has no such log; Spark then deletes them as
     * always.
     *
     * <p>A start infers the interval from the compactions that are there. From two it is their
     * difference; from one alone it may be another, so that Spark and this class have to delete the
     * last but one at the same entry.
     */
    static FileLog of(Object owner, String fieldName) {
        try {
            Field field = owner.getClass().getDeclaredField(fieldName);
            field.setAccessible(true);
            CompactibleFileStreamLog log = (CompactibleFileStreamLog) field.get(owner);
            if (log.minBatchesToRetain() < 2 * log.compactInterval()) { return null; }
            Method method = CompactibleFileStreamLog.class.getDeclaredMethod(
                "deleteExpiredLog", new Class[] {Long.TYPE});
            method.setAccessible(true);
            Field deletes = log.getClass().getDeclaredField("isDeletingExpiredLog");
            deletes.setAccessible(true);
            if (!deletes.getBoolean(log)) { return null; }
            deletes.setBoolean(log, false);
            return new FileLog(log, method);
        } catch (ReflectiveOperationException otherMembers) {
            return null;
        } catch (RuntimeException notAccessible) {
            return null;
        }
    }

    /** Every so many entries, the newest is a compaction. */
    public int interval() { return log.compactInterval(); }

    /** Deletes the entries that have expired, up to this one, with Spark's own method. */
    public void deleteExpired(long entry) throws Throwable {
        try {
            deleteExpired.invoke(log, new Object[] {Long.valueOf(entry)});
        } catch (InvocationTargetException failed) {
            throw failed.getCause();
        }
    }
}
