import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TransactionalCatalogPlugin;
import org.apache.spark.sql.connector.catalog.transactions.Transaction;
import org.apache.spark.sql.connector.catalog.transactions.TransactionInfo;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.noop.NoopDataSource;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A catalog whose every table takes rows and keeps none. It notes what becomes of transactions. */
public class TransactionalCatalog implements TableCatalog, TransactionalCatalogPlugin {
  private static final List EVENTS = Collections.synchronizedList(new ArrayList());
  private String name;

  public static List events() {
    return EVENTS;
  }

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  public String name() {
    return name;
  }

  public Transaction beginTransaction(TransactionInfo info) {
    EVENTS.add("begin");
    return new NotedTransaction(this);
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

  static class NotedTransaction implements Transaction {
    private final CatalogPlugin catalog;

    NotedTransaction(CatalogPlugin catalog) {
      this.catalog = catalog;
    }

    public CatalogPlugin catalog() {
      return catalog;
    }

    public void commit() {
      EVENTS.add("commit");
    }

    public void abort() {
      EVENTS.add("abort");
    }

    public boolean registerScans(Scan[] scans) {
      return false;
    }

    public void close() {
      EVENTS.add("close");
    }
  }
}
