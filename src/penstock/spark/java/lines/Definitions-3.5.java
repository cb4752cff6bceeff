/** What WITH defines in a plan. */
class Definitions {
    /** The plan with each definition in the places that use it, as the optimizer makes it. */
    static LogicalPlan inlined(LogicalPlan plan) {
        boolean hasAny = !plan.collect(new InstancesOf(WithCTE.class)).isEmpty();
        return hasAny ? new InlineCTE(true).apply(plan) : plan;
    }
}
