import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** A PartialFunction that is defined everywhere, as Spark's transformations take it. */
abstract class Everywhere extends AbstractPartialFunction {
    abstract Object of(Object node);

    public boolean isDefinedAt(Object node) { return true; }

    public Object applyOrElse(Object node, Function1 otherwise) { return of(node); }
}
