import scala.collection.immutable.Map;

/** The state stores of a batch whose commits are counted: this Spark does not count them. */
class StateStores {
    static Map of(SparkPlan plan) { return null; }
}
