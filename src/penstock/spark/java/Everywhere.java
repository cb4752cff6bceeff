import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** A PartialFunction that is defined for every node, for TreeNode.transform. */
abstract class Everywhere extends AbstractPartialFunction {
    abstract Object of(Object node);

    public boolean isDefinedAt(Object node) { return true; }

    public Object applyOrElse(Object node, Function1 otherwise) { return of(node); }
}
