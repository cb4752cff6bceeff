import org.apache.spark.sql.connector.catalog.TableProvider;

/** Data sources written in Python: this Spark has none. */
class PythonProviders {
    static void setName(TableProvider provider, String format) {}
}
