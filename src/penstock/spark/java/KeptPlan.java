import java.util.Arrays;
import java.util.IdentityHashMap;
import scala.collection.Iterator;

/** An optimized plan, the scans in it, and whether it may be used for later batches. */
class KeptPlan {
    static final KeptPlan REJECTED = new KeptPlan();

    private final LogicalPlan plan;
    private final java.util.Map leafOfScan = new IdentityHashMap();
    private final java.util.Map settings;
    private Boolean isConfirmed;

    private KeptPlan() {
        plan = null;
        settings = null;
        isConfirmed = Boolean.FALSE;
    }

    /** `settings` are those of the session. Rejected at once if a scan in it is not a leaf's. */
    KeptPlan(LogicalPlan plan, LogicalPlan[] data, java.util.Map settings) {
        this.plan = plan;
        this.settings = new java.util.HashMap(settings);
        for (Iterator nodes = plan.collectLeaves().iterator(); nodes.hasNext();) {
            Object node = nodes.next();
            if (!V2Scan.isScan(node)) { continue; }
            int leaf = Arrays.asList(data).indexOf(node);
            if (leaf < 0) { reject(); }
            leafOfScan.put(node, Integer.valueOf(leaf));
        }
    }

    boolean isUndecided() { return isConfirmed == null; }

    boolean isConfirmed() { return isConfirmed != null && isConfirmed.booleanValue(); }

    void confirm() { isConfirmed = Boolean.TRUE; }

    void reject() { isConfirmed = Boolean.FALSE; }

    boolean hasSettings(java.util.Map others) { return settings.equals(others); }

    /** Whether this plan with other data equals what Spark has made of these. */
    boolean isLike(LogicalPlan optimized, LogicalPlan[] data) {
        return plan.schema().equals(optimized.schema())
            && ((LogicalPlan) with(data).canonicalized()).equals(optimized.canonicalized());
    }

    /** The plan with other data. */
    LogicalPlan with(final LogicalPlan[] data) {
        return (LogicalPlan) plan.transform(new Everywhere() {
            Object of(Object node) {
                Integer leaf = (Integer) leafOfScan.get(node);
                return leaf == null ? node : data[leaf.intValue()];
            }
        });
    }
}
