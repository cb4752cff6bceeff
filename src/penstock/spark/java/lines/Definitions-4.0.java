/** Common table expressions in a plan. */
class Definitions {
    /** Returns the plan: this Spark does not match leaves by position. */
    static LogicalPlan inlined(LogicalPlan plan) { return plan; }
}
