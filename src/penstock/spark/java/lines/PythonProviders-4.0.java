import org.apache.spark.sql.connector.catalog.TableProvider;

/** Python data sources. All have the same provider class, with the name set on it. */
class PythonProviders {
    static void setName(TableProvider provider, String format) {
        if (provider instanceof PythonDataSourceV2) {
            ((PythonDataSourceV2) provider).setShortName(format);
        }
    }
}
