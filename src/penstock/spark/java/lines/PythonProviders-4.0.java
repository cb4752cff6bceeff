import org.apache.spark.sql.connector.catalog.TableProvider;

/** Data sources written in Python. One class provides all of them, told apart by their names. */
class PythonProviders {
    static void setName(TableProvider provider, String format) {
        if (provider instanceof PythonDataSourceV2) {
            ((PythonDataSourceV2) provider).setShortName(format);
        }
    }
}
