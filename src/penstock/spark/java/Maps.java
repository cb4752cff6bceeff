import java.util.LinkedHashMap;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.mutable.HashMap;

/** Conversions of Scala maps, with methods that Scala 2.12 and 2.13 both have. */
class Maps {
    static Map immutable(HashMap map) { return map.toMap(null); }

    static java.util.Map asJava(Map map) {
        java.util.Map entries = new LinkedHashMap();
        for (Iterator i = map.iterator(); i.hasNext();) {
            Tuple2 entry = (Tuple2) i.next();
            entries.put(entry._1(), entry._2());
        }
        return entries;
    }
}
