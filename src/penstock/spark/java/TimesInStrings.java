import java.util.regex.Pattern;
import org.apache.spark.sql.types.DataType;
import scala.collection.Iterator;

/**
 * Finds out whether the optimizer may compute a date or a time from the clock although no
 * expression of the plan reads it: 'today' or '09:00' as a timestamp means the day of the batch.
 */
class TimesInStrings {
    /** In a literal: what every time without a date has, a colon or a T at the beginning. */
    private static final Pattern PART_OF_TIME =
        Pattern.compile(".*:.*|\\s*[tT]\\d*\\s*", Pattern.DOTALL);

    private boolean isOfTheDay;
    private boolean parsesColumns;
    private boolean hasPartOfTime;

    /**
     * Whether a value may depend on the day: that of an expression without columns, or of one with
     * columns that the optimizer may replace by a literal of the plan.
     */
    boolean mayDependOnTheDay() { return isOfTheDay || (parsesColumns && hasPartOfTime); }

    void look(Expression expression) {
        String kind = expression.getClass().getSimpleName();
        if (kind.equals("Literal")) {
            hasPartOfTime |= isText(expression.dataType())
                && PART_OF_TIME.matcher(String.valueOf(expression.eval(null))).matches();
            return;
        }
        boolean isConstant = expression.references().isEmpty() && !kind.equals("Alias");
        for (Iterator i = expression.children().iterator(); i.hasNext();) {
            Expression child = (Expression) i.next();
            isOfTheDay |= isConstant && isText(child.dataType());
            look(child);
        }
        if (kind.equals("Cast")) {
            DataType from = ((Expression) expression.children().head()).dataType();
            lookAtCast(from, expression.dataType());
        }
        // from_json, from_csv, from_xml, variant_get
        parsesColumns |= kind.endsWith("ToStructs") || kind.equals("VariantGet");
        if (expression instanceof RuntimeReplaceable) {
            look(((RuntimeReplaceable) expression).replacement());
        }
    }

    private void lookAtCast(DataType from, DataType to) {
        if (!isDated(to)) { return; }
        String name = from.typeName();
        isOfTheDay |= name.startsWith("time") && !isDated(from); // TIME, of Spark 4.1
        parsesColumns |= isText(from) || name.startsWith("variant");
    }

    private static boolean isDated(DataType type) {
        return type.typeName().startsWith("date") || type.typeName().startsWith("timestamp");
    }

    private static boolean isText(DataType type) {
        String name = type.typeName();
        return name.startsWith("string") || name.startsWith("char") || name.startsWith("varchar");
    }
}
