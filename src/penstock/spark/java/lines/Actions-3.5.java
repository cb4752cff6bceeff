import scala.Function0;

/** The local properties of an action: this Spark sets none. */
class Actions {
    static Object withId(QueryExecution execution, Function0 body) { return body.apply(); }
}
