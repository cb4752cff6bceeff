import scala.Function0;

/** The local properties of an action. */
class Actions {
    /** Runs the action with the id of its execution as a local property, for its jobs. */
    static Object withId(QueryExecution execution, Function0 body) {
        return execution.withQueryExecutionId((ClassicSession) execution.sparkSession(), body);
    }
}
