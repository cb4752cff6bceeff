import java.util.regex.Pattern;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

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
            hasPartOfTime |= isText(expression.dataType()) && !isWithoutTime(expression);
            return;
        }
        boolean isConstant = expression.references().isEmpty() && !kind.equals("Alias");
        // Its value is not known here, as that of a variable of the session.
        hasPartOfTime |= isConstant && isText(expression.dataType());
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

    /** Whether a literal is a text without a part of a time. Texts in an array are not read. */
    private static boolean isWithoutTime(Expression literal) {
        return literal.dataType() instanceof StringType
            && !PART_OF_TIME.matcher(String.valueOf(literal.eval(null))).matches();
    }

    private void lookAtCast(DataType from, DataType to) {
        if (!isDated(to)) { return; }
        // TIME can be cast to a timestamp since Spark 4.3: with the date of the batch.
        isOfTheDay |= has(from, "time(");
        parsesColumns |= isText(from) || has(from, "variant");
    }

    private static boolean isDated(DataType type) { return has(type, "date", "timestamp"); }

    private static boolean isText(DataType type) { return has(type, "string", "char", "varchar"); }

    /** Whether a type, or one inside an array, a map or a struct, has a name that begins so. */
    private static boolean has(DataType type, final String... names) {
        return type.existsRecursively(new AbstractFunction1() {
            public Object apply(Object part) {
                for (String name : names) {
                    if (((DataType) part).typeName().startsWith(name)) { return Boolean.TRUE; }
                }
                return Boolean.FALSE;
            }
        });
    }
}
