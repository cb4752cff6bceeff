/** What WITH defines in a plan. */
class Definitions {
    /** The plan itself: nothing in it is told by its position. */
    static LogicalPlan inlined(LogicalPlan plan) { return plan; }
}
