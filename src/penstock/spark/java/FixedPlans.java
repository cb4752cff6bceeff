import scala.collection.Iterator;
import scala.collection.Seq;

/** Decides whether Spark's optimizer always gives the same result for the batches of a query. */
class FixedPlans {
    private static final String SPARK = "org.apache.spark.sql.";
    private static final String EXPRESSIONS = SPARK + "catalyst.expressions.";

    /** With Hive support, Spark has this rule, which changes nothing but scans of Hive's tables. */
    private static final String HIVE_RULE = SPARK + "hive.execution.PruneHiveTablePartitions";

    /**
     * Whether a plan reads streams only and has no expression whose value the optimizer may compute
     * anew in every batch: the clock, times in strings, random numbers, subqueries, functions that
     * are not Spark's.
     */
    static boolean isFixed(LogicalPlan plan) {
        if (plan.containsPattern(TreePattern.CURRENT_LIKE())) { return false; }
        TimesInStrings times = new TimesInStrings();
        for (Iterator nodes = StreamingPlan.everyNode(plan); nodes.hasNext();) {
            LogicalPlan node = (LogicalPlan) nodes.next();
            if (!isSparks(node.getClass(), SPARK)) { return false; }
            if (node.children().isEmpty() && !StreamingPlan.isStreamingLeaf(node)) { return false; }
            for (Iterator i = node.expressions().iterator(); i.hasNext();) {
                Expression expression = (Expression) i.next();
                if (!isFixed(expression)) { return false; }
                times.look(expression);
            }
        }
        return !times.mayDependOnTheDay();
    }

    private static boolean isFixed(Expression expression) {
        boolean isFixed = isSparks(expression.getClass(), EXPRESSIONS)
            && expression.deterministic() && !(expression instanceof PlanExpression)
            && !(expression instanceof ExpressionWithRandomSeed) && !callsOthers(expression);
        for (Iterator i = expression.children().iterator(); isFixed && i.hasNext();) {
            isFixed = isFixed((Expression) i.next());
        }
        return isFixed;
    }

    /** Whether an expression calls code that may be a user's, even if its arguments are fixed. */
    private static boolean callsOthers(Expression expression) {
        return expression instanceof ScalaUDF || expression instanceof Invoke
            || expression instanceof StaticInvoke || expression instanceof NewInstance
            || expression instanceof ApplyFunctionExpression;
    }

    /** Whether no extension of the session has added a rule to the optimizer or before it. */
    static boolean hasOnlySparksRules(ClassicSession session) {
        for (Iterator i = session.sessionState().optimizer().batches().iterator(); i.hasNext();) {
            if (!areSparks(((OptimizerBatch) i.next()).rules())) { return false; }
        }
        return areSparks(session.sessionState().planNormalizationRules());
    }

    private static boolean areSparks(Seq rules) {
        for (Iterator i = rules.iterator(); i.hasNext();) {
            Class kind = i.next().getClass();
            if (!isSparks(kind, SPARK) && !kind.getName().equals(HIVE_RULE)) { return false; }
        }
        return true;
    }

    /** By name and by jar: extensions have classes in Spark's packages, too. */
    private static boolean isSparks(Class kind, String prefix) {
        Object source = kind.getProtectionDomain().getCodeSource();
        return kind.getName().startsWith(prefix) && source != null
            && (source.equals(LogicalPlan.class.getProtectionDomain().getCodeSource())
                || source.equals(QueryExecution.class.getProtectionDomain().getCodeSource()));
    }
}
