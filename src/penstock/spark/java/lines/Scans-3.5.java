import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.read.Scan;

/** Builds the scan of a V2 stream, with the default columns of the source. */
class Scans {
    static Scan of(StreamingRelationV2 node) {
        return ((SupportsRead) node.table()).newScanBuilder(node.extraOptions()).build();
    }
}
