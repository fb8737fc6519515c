// pgjdbc: the catalogue, a statement that becomes a prepared one of the server's, a cursor, an error with its position.
import java.sql.*;
import java.util.*;
import org.postgresql.util.PSQLException;

public class Ask {
    public static void main(String[] args) throws Exception {
        Properties words = new Properties();
        words.setProperty("user", "ana");
        words.setProperty("password", System.getenv("PGPASSWORD"));
        words.setProperty("sslmode", "require");
        try (Connection db = DriverManager.getConnection(args[0], words)) {
            DatabaseMetaData about = db.getMetaData();
            System.out.println("tables " + names(about.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME"));
            System.out.println("columns " + names(about.getColumns(null, "public", "orders", "%"), "COLUMN_NAME"));
            System.out.println("schemas " + names(about.getSchemas(), "TABLE_SCHEM"));
            System.out.println("keys " + names(about.getPrimaryKeys(null, "public", "orders"), "COLUMN_NAME"));
            Set<Long> counts = new TreeSet<>();
            try (PreparedStatement older = db.prepareStatement("SELECT count(*) AS n FROM customers WHERE age > ? AND region = ?")) {
                System.out.println("type " + older.getMetaData().getColumnTypeName(1));
                for (int i = 0; i < 7; i++) {
                    older.setInt(1, 40);
                    older.setString(2, "north");
                    try (ResultSet rows = older.executeQuery()) {
                        rows.next();
                        counts.add(rows.getLong(1));
                    }
                }
                System.out.println("prepared " + older.unwrap(org.postgresql.PGStatement.class).isUseServerPrepare());
            }
            System.out.println("counts " + counts.size());
            try (PreparedStatement since = db.prepareStatement("SELECT count(*) AS n FROM orders WHERE placed >= ?")) {
                since.setDate(1, java.sql.Date.valueOf("2024-06-01"));
                try (ResultSet rows = since.executeQuery()) {
                    System.out.println("since " + rows.next());
                }
            }
            db.setAutoCommit(false);
            try (Statement cursor = db.createStatement()) {
                cursor.setFetchSize(2);
                int count = 0;
                try (ResultSet rows = cursor.executeQuery("SELECT category, count(*) AS n FROM orders WHERE amount > 7 GROUP BY category")) {
                    while (rows.next()) {
                        count++;
                    }
                }
                System.out.println("fetched " + count);
            }
            db.commit();
            db.setAutoCommit(true);
            try (Statement wrong = db.createStatement()) {
                wrong.executeQuery("SELECT avg(CAST(city AS DOUBLE PRECISION)) FROM customers");
            } catch (PSQLException refused) {
                System.out.println("refused " + refused.getSQLState() + " " + refused.getServerErrorMessage().getPosition());
            }
            System.out.println("valid " + db.isValid(5));
        }
    }

    private static List<String> names(ResultSet rows, String column) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) {
            found.add(rows.getString(column));
        }
        Collections.sort(found);
        return found;
    }
}
