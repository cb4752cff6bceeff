import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.read.Scan;

/** The scan of a stream of Spark's second API, with the columns that the source gives by itself. */
class Scans {
    static Scan of(StreamingRelationV2 node) {
        return ((SupportsRead) node.table()).newScanBuilder(node.extraOptions()).build();
    }
}
