import scala.collection.Iterator;

/** The operators of a physical plan. Adaptive execution, which wraps parts of it, is off. */
class Operators {
    static Iterator of(SparkPlan plan, Class kind) {
        return plan.collect(new InstancesOf(kind)).iterator();
    }
}
