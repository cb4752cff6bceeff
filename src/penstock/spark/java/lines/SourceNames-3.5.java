import scala.Option;

/** The name that a query gives a source: this Spark has none. */
class SourceNames {
    static Option nameOf(LogicalPlan leaf) { return Option.empty(); }
}
