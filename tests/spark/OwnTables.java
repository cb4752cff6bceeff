import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.noop.NoopDataSource;
import org.apache.spark.sql.execution.datasources.noop.NoopStreamingWrite$;
import org.apache.spark.sql.execution.streaming.sources.RatePerMicroBatchProvider;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's source `rate-micro-batch`, with scans that report statistics. */
public class CountedNumbers extends RatePerMicroBatchProvider {
  public Table getTable(CaseInsensitiveStringMap options) {
    return new CountedTable((SupportsRead) super.getTable(options));
  }
}

class CountedTable implements SupportsRead {
  private final SupportsRead table;

  CountedTable(SupportsRead table) {
    this.table = table;
  }

  public String name() {
    return "counted";
  }

  public StructType schema() {
    return table.schema();
  }

  public Set capabilities() {
    return table.capabilities();
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    final Scan scan = table.newScanBuilder(options).build();
    return new ScanBuilder() {
      public Scan build() {
        return new CountedScan(scan);
      }
    };
  }
}

class CountedScan implements SupportsReportStatistics {
  private final Scan scan;

  CountedScan(Scan scan) {
    this.scan = scan;
  }

  public StructType readSchema() {
    return scan.readSchema();
  }

  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    return scan.toMicroBatchStream(checkpoint);
  }

  public Statistics estimateStatistics() {
    return new Statistics() {
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(160L);
      }

      public OptionalLong numRows() {
        return OptionalLong.of(10L);
      }
    };
  }
}

/** Spark's sink `noop`, which here asks for rows that are clustered by the column `value`. */
public class ClusteredNoop extends NoopDataSource {
  public Table getTable(CaseInsensitiveStringMap options) {
    return new ClusteredTable(super.getTable(options));
  }
}

class ClusteredTable implements SupportsWrite {
  private final Table table;

  ClusteredTable(Table table) {
    this.table = table;
  }

  public String name() {
    return "clustered";
  }

  public StructType schema() {
    return table.schema();
  }

  public Set capabilities() {
    return table.capabilities();
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new WriteBuilder() {
      public Write build() {
        return new ClusteredWrite();
      }
    };
  }
}

class ClusteredWrite implements RequiresDistributionAndOrdering {
  public Distribution requiredDistribution() {
    return Distributions.clustered(new Expression[] {Expressions.column("value")});
  }

  public SortOrder[] requiredOrdering() {
    return new SortOrder[0];
  }

  public StreamingWrite toStreaming() {
    return NoopStreamingWrite$.MODULE$;
  }
}

/** A catalog whose every table is Spark's sink `noop`. */
public class NoopCatalog implements TableCatalog {
  private String name;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  public String name() {
    return name;
  }

  public Table loadTable(Identifier ident) {
    return new NoopDataSource().getTable(CaseInsensitiveStringMap.empty());
  }

  public Identifier[] listTables(String[] namespace) {
    return new Identifier[0];
  }

  public Table alterTable(Identifier ident, TableChange[] changes) {
    throw new UnsupportedOperationException();
  }

  public boolean dropTable(Identifier ident) {
    return false;
  }

  public void renameTable(Identifier from, Identifier to) {
    throw new UnsupportedOperationException();
  }
}
