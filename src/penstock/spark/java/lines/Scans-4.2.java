import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;

/** Builds the scan of a V2 stream, pruned to the columns of the relation. */
class Scans {
    static Scan of(StreamingRelationV2 node) {
        ScanBuilder builder = ((SupportsRead) node.table()).newScanBuilder(node.extraOptions());
        if (builder instanceof SupportsPushDownRequiredColumns) {
            ((SupportsPushDownRequiredColumns) builder).pruneColumns(node.schema());
        }
        return builder.build();
    }
}
