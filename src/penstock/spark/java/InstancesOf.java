import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** A PartialFunction that is the identity on the instances of a class, for collect. */
class InstancesOf extends AbstractPartialFunction {
    private final Class kind;

    InstancesOf(Class kind) { this.kind = kind; }

    public boolean isDefinedAt(Object node) { return kind.isInstance(node); }

    public Object applyOrElse(Object node, Function1 otherwise) {
        return kind.isInstance(node) ? node : otherwise.apply(node);
    }
}
