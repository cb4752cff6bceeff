import org.apache.spark.sql.connector.catalog.TableProvider;

/** Python data sources: this Spark has none. */
class PythonProviders {
    static void setName(TableProvider provider, String format) {}
}
