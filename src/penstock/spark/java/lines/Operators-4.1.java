import scala.collection.Iterator;

/** The operators of a physical plan, also inside the stages of adaptive execution. */
class Operators {
    static Iterator of(SparkPlan plan, Class kind) {
        return PlanTraverseHelper.collectFromUnfoldedPlan(plan, new InstancesOf(kind)).iterator();
    }
}
