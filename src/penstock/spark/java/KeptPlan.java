import java.util.Arrays;
import java.util.IdentityHashMap;
import scala.collection.Iterator;

/** An optimized plan, the scans in it, and whether it may be used for later batches. */
class KeptPlan {
    /** The plan of a shape that Spark optimizes in every batch. */
    static final KeptPlan REJECTED = new KeptPlan();

    private static final int UNDECIDED = 0, CONFIRMED = 1, REFUSED = 2;

    private final LogicalPlan plan;
    private final java.util.Map leafOfScan = new IdentityHashMap();
    private final Surroundings surroundings;
    private int state = UNDECIDED;

    private KeptPlan() {
        plan = null;
        surroundings = null;
        state = REFUSED;
    }

    /** Rejected at once if a scan in it is not a leaf's. */
    KeptPlan(LogicalPlan plan, LogicalPlan[] data, Surroundings surroundings) {
        this.plan = plan;
        this.surroundings = surroundings;
        for (Iterator nodes = plan.collectLeaves().iterator(); nodes.hasNext();) {
            Object node = nodes.next();
            if (!V2Scan.isScan(node)) { continue; }
            int leaf = Arrays.asList(data).indexOf(node);
            if (leaf < 0) { reject(); }
            leafOfScan.put(node, Integer.valueOf(leaf));
        }
    }

    boolean isUndecided() { return state == UNDECIDED; }

    boolean isConfirmed() { return state == CONFIRMED; }

    void confirm() { state = CONFIRMED; }

    void reject() { state = REFUSED; }

    /** Whether the optimizer still has the same settings and the same day. */
    boolean isOf(Surroundings others) { return surroundings.equals(others); }

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
