import scala.Option;
import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.Nil$;

/**
 * Keeps the optimized plans of a query's batches. Batches of one shape differ only in the offsets
 * of their scans, which no rule of Spark's optimizer reads. The optimizer runs for the batch of a
 * shape that is analyzed and for two more; if the plans of these two are equal but for the scans,
 * later batches get that plan with their own scans and their own write. See docs/adr/0039.
 */
class KeptPlans {
    private static final int MOST_SHAPES = 16;

    private final ClassicSession session;
    private final LogicalPlan write;
    private final java.util.Map shapes = new java.util.HashMap();
    private Boolean isFixed;

    /** `write` is the analyzed plan that writes the query, with its streaming leaves. */
    KeptPlans(ClassicSession session, LogicalPlan write) {
        this.session = session;
        this.write = write;
    }

    /** The optimized plan of a batch planned at `timestampMs`; null if Spark has to optimize it. */
    LogicalPlan find(LogicalPlan batch, LogicalPlan[] data, long timestampMs) {
        KeptPlan kept = (KeptPlan) shapes.get(shapeOf(data));
        if (kept == null || !kept.isConfirmed()) { return null; }
        if (!kept.isOf(new Surroundings(session, timestampMs))) {
            shapes.remove(shapeOf(data));
            return null;
        }
        LogicalPlan rows = kept.with(data);
        if (!(batch instanceof WriteToMicroBatchDataSource)) { return rows; }
        LogicalPlan written = (LogicalPlan) V2Writes$.MODULE$.apply(
            (LogicalPlan) batch.withNewChildren(new $colon$colon(rows, Nil$.MODULE$)));
        if (rows.fastEquals(rowsOf(written))) { return written; }
        kept.reject();
        return null;
    }

    /** Takes note of a plan that Spark has optimized. Whatever goes wrong, it is not kept. */
    void learn(
            LogicalPlan batch, LogicalPlan optimized, LogicalPlan[] data, long timestampMs) {
        Object shape = shapeOf(data);
        try {
            Surroundings surroundings = new Surroundings(session, timestampMs);
            KeptPlan kept = (KeptPlan) shapes.get(shape);
            if (kept != null && kept.isUndecided() && !kept.isOf(surroundings)) { kept = null; }
            LogicalPlan rows = rowsOf(optimized);
            boolean hasRoom = shapes.containsKey(shape) || shapes.size() < MOST_SHAPES;
            if (kept == null && hasRoom && rows != null && isFixed()) {
                shapes.put(shape, new KeptPlan(rows, data, surroundings));
            } else if (kept != null && kept.isUndecided()) {
                boolean isEqual = kept.isLike(rows, data) && isSchemaFinal(batch, rows);
                if (isEqual) { kept.confirm(); } else { kept.reject(); }
            }
        } catch (Throwable unexpected) {
            shapes.put(shape, KeptPlan.REJECTED);
        }
    }

    /** Which leaves have data. */
    private static Object shapeOf(LogicalPlan[] data) {
        StringBuilder shape = new StringBuilder();
        for (LogicalPlan each : data) { shape.append(V2Scan.isScan(each) ? '1' : '0'); }
        return shape.toString();
    }

    /** The plan below the write of a V2 sink, null if that is in a catalog; otherwise the plan. */
    private static LogicalPlan rowsOf(LogicalPlan optimized) {
        if (!(optimized instanceof WriteToDataSourceV2)) { return optimized; }
        Option relation = ((WriteToDataSourceV2) optimized).relation();
        boolean isInCatalog = relation.isDefined()
            && ((DataSourceV2Relation) relation.get()).catalog().isDefined();
        // Tables of a catalog may change their version, for which Spark looks in every batch.
        return isInCatalog ? null : ((WriteToDataSourceV2) optimized).query();
    }

    /**
     * Whether the schema that the optimizer passes to a V2 sink is that of the optimized plan. It
     * does so before its last rules, so the batch is optimized again with a sink that records it.
     */
    private boolean isSchemaFinal(LogicalPlan batch, LogicalPlan rows) {
        if (!(batch instanceof WriteToMicroBatchDataSource)) { return true; }
        WriteToMicroBatchDataSource real = (WriteToMicroBatchDataSource) batch;
        SchemaProbe probe = new SchemaProbe();
        DataSourceV2Relation target =
            DataSourceV2Relation.create(probe, Option.empty(), Option.empty());
        session.sessionState().optimizer().execute(${new WriteToMicroBatchDataSource(
            relation = target, catalogRelation = Option.empty(), table = probe,
            query = (LogicalPlan) real.query().clone(), queryId = real.queryId(),
            writeOptions = real.writeOptions(), outputMode = real.outputMode(),
            batchId = real.batchId())});
        return rows.schema().equals(probe.seen());
    }

    /** Whether the result of the optimizer depends on nothing but the shape and the settings. */
    private boolean isFixed() {
        if (isFixed == null) {
            isFixed = Boolean.valueOf(
                FixedPlans.isFixed(write) && FixedPlans.hasOnlySparksRules(session));
        }
        return isFixed.booleanValue();
    }
}
