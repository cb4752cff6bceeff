import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.mutable.HashMap;

/** The state stores of a batch for commit tracking. */
class StateStores {
    /** Operator id -> store name -> number of partitions; null without a stateful operator. */
    static Map of(SparkPlan plan) {
        HashMap all = new HashMap();
        for (Iterator i = Operators.of(plan, StateStoreWriter.class); i.hasNext();) {
            StateStoreWriter writer = (StateStoreWriter) i.next();
            Object count = Integer.valueOf(writer.getStateInfo().numPartitions());
            HashMap partitions = new HashMap();
            for (Iterator names = writer.stateStoreNames().iterator(); names.hasNext();) {
                partitions.put(names.next(), count);
            }
            Object id = Long.valueOf(writer.getStateInfo().operatorId());
            all.put(id, Maps.immutable(partitions));
        }
        return all.isEmpty() ? null : Maps.immutable(all);
    }
}
