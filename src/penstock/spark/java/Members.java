import java.lang.reflect.Constructor;
import java.lang.reflect.Method;

/** Looks up members of classes. Does not depend on Spark, so that it always compiles. */
public class Members {
    /** Returns those triples of class, member and number of parameters that do not exist. */
    public String missing(String triples) {
        String[] texts = Records.fields(triples);
        Records missing = new Records();
        for (int i = 0; i + 2 < texts.length; i += 3) {
            int count = Integer.parseInt(texts[i + 2]);
            if (!has(texts[i], texts[i + 1], count) && !has(texts[i] + "$", texts[i + 1], count)) {
                missing.add(texts[i]).add(texts[i + 1]).add(texts[i + 2]).end();
            }
        }
        return missing.toString();
    }

    private static boolean has(String className, String member, int count) {
        try {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            Class found = Class.forName(className, false, loader);
            for (Constructor constructor : found.getConstructors()) {
                if (member.equals("new") && constructor.getParameterTypes().length == count) {
                    return true;
                }
            }
            for (Method method : found.getMethods()) {
                if (method.getName().equals(member) && method.getParameterTypes().length == count) {
                    return true;
                }
            }
            return member.equals("class");
        } catch (Throwable notThere) {
            return false;
        }
    }
}
