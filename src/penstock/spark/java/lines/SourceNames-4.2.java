import scala.Option;

/** The name that a query gives a source. */
class SourceNames {
    static Option nameOf(LogicalPlan leaf) {
        return ((HasStreamingSourceIdentifyingName) leaf).sourceIdentifyingName().nameOpt();
    }
}
