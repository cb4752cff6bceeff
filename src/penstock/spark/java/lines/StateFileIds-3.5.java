import scala.collection.mutable.HashMap;

/** The ids of state files, which this Spark does not have. */
class StateFileIds {
    static void take(StateStoreWriter writer, HashMap known, Records records) { }
}
