/** Common table expressions in a plan. */
class Definitions {
    /** The plan with each common table expression inlined, as the optimizer does. */
    static LogicalPlan inlined(LogicalPlan plan) {
        boolean hasAny = !plan.collect(new InstancesOf(WithCTE.class)).isEmpty();
        return hasAny ? new InlineCTE(true).apply(plan) : plan;
    }
}
