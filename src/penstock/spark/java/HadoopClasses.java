import java.lang.invoke.MethodHandles;
import java.nio.file.FileSystems;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** Defines a file system beside Hadoop's own, so that Hadoop finds it by name in every thread. */
public class HadoopClasses {
    /**
     * Defines a class of the package `org.apache.hadoop.fs` in the class loader of Hadoop, unless
     * an earlier call has.
     */
    public void define(String name, byte[] code) throws Exception {
        if (!FileSystems.getDefault().supportedFileAttributeViews().contains("unix")) {
            throw new UnsupportedOperationException("There are no Unix permissions here");
        }
        if (isDefined(name)) { return; }
        try {
            MethodHandles.privateLookupIn(RawLocalFileSystem.class, MethodHandles.lookup())
                .defineClass(code);
        } catch (LinkageError defined) {
            // by another thread, or it is not a valid class
            if (!isDefined(name)) { throw defined; }
        }
    }

    private static boolean isDefined(String name) {
        try {
            Class.forName(name, false, RawLocalFileSystem.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException notYet) {
            return false;
        }
    }
}
