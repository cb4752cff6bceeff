import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructType;

/** A V2 sink that takes note of the schema that the optimizer shows to it, and writes nothing. */
public class SchemaProbe implements SupportsWrite {
    private StructType seen;

    StructType seen() { return seen; }

    public String name() { return "schema probe"; }

    public StructType schema() { return new StructType(); }

    public Set capabilities() {
        return EnumSet.of(TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        seen = info.schema();
        return new Builder();
    }

    /** Builds a write for every output mode. */
    public static class Builder
            implements WriteBuilder, SupportsTruncate, SupportsStreamingUpdateAsAppend {
        public WriteBuilder truncate() { return this; }

        public Write build() {
            return new Write() {
                public StreamingWrite toStreaming() { return null; }
            };
        }
    }
}
