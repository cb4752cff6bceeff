import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.jdbc.JdbcDialects;
import scala.collection.immutable.Map;

/**
 * A connection to a database, opened as Spark's JDBC data source opens its own: with its drivers,
 * class loaders and authentication. Parameters of a statement are the fields of a record, each
 * after a letter for its type: `n` for a number, `t` for text, `0` for null.
 */
public class JdbcSession {
    /** A table or its schema is missing, in PostgreSQL; MySQL and H2; Derby; Db2. */
    private static final List<String> MISSING = Arrays.asList(
        "42P01", "42S02", "42S03", "42S04", "42X05", "42Y07", "42704");

    private final Connection connection;

    JdbcSession(Map options) {
        JDBCOptions given = new JDBCOptions(options);
        Object partition = Integer.valueOf(-1);  // the driver's
        connection = (Connection) JdbcDialects.get(given.url())
            .createConnectionFactory(given).apply(partition);
    }

    /** Executes a statement that returns no rows. Returns the number of rows it has changed. */
    public long update(String sql, String parameters) throws SQLException {
        PreparedStatement statement = prepared(sql, parameters);
        try {
            return statement.executeUpdate();
        } finally {
            statement.close();
        }
    }

    /** Like `update`; false if a row with the same key exists. The transaction may be aborted. */
    public boolean insert(String sql, String parameters) throws SQLException {
        try {
            update(sql, parameters);
            return true;
        } catch (SQLException failed) {
            String state = failed.getSQLState();
            if (state != null && state.startsWith("23")) {
                return false;
            }
            throw failed;
        }
    }

    /** One record for each row; an empty field for null, else `=` and the value as text. */
    public String query(String sql, String parameters) throws SQLException {
        PreparedStatement statement = prepared(sql, parameters);
        try {
            ResultSet rows = statement.executeQuery();
            int columns = rows.getMetaData().getColumnCount();
            Records found = new Records();
            while (rows.next()) {
                for (int i = 1; i <= columns; i++) {
                    String value = rows.getString(i);
                    found.add(value == null ? "" : "=" + value);
                }
                found.end();
            }
            return found.toString();
        } finally {
            statement.close();
        }
    }

    /** One record: the names of the columns of a query; null if its table is missing. */
    public String columns(String sql) throws SQLException {
        try {
            return namesOf(sql);
        } catch (SQLException failed) {
            if (isMissingTable(failed)) {
                return null;
            }
            throw failed;
        }
    }

    private String namesOf(String sql) throws SQLException {
        PreparedStatement statement = connection.prepareStatement(sql);
        try {
            ResultSetMetaData about = statement.executeQuery().getMetaData();
            Records names = new Records();
            for (int i = 1; i <= about.getColumnCount(); i++) {
                names.add(about.getColumnName(i));
            }
            return names.toString();
        } finally {
            statement.close();
        }
    }

    /** Whether the database says that a table, or its schema, is missing. */
    private static boolean isMissingTable(SQLException failed) {
        String state = failed.getSQLState();
        if (state != null && MISSING.contains(state)) {
            return true;
        }
        // The drivers of SQLite and DuckDB give no state.
        String message = String.valueOf(failed.getMessage()).toLowerCase(Locale.ROOT);
        return (state == null || state.isEmpty())
            && (message.contains("no such table") || message.contains("does not exist"));
    }

    /** The string that quotes identifiers. */
    public String quote() throws SQLException {
        return connection.getMetaData().getIdentifierQuoteString().trim();
    }

    public void begin() throws SQLException { connection.setAutoCommit(false); }

    public void commit() throws SQLException {
        connection.commit();
        connection.setAutoCommit(true);
    }

    public void rollback() throws SQLException {
        connection.rollback();
        connection.setAutoCommit(true);
    }

    public void close() throws SQLException { connection.close(); }

    private PreparedStatement prepared(String sql, String parameters) throws SQLException {
        PreparedStatement statement = connection.prepareStatement(sql);
        String[] fields = Records.fields(parameters);
        for (int i = 0; i < fields.length; i++) {
            String value = fields[i].substring(1);
            if (fields[i].charAt(0) == 'n') {
                statement.setLong(i + 1, Long.parseLong(value));
            } else if (fields[i].charAt(0) == '0') {
                statement.setNull(i + 1, java.sql.Types.BIGINT);
            } else {
                statement.setString(i + 1, value);
            }
        }
        return statement;
    }
}
