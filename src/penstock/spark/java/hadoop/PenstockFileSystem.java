import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.io.nativeio.NativeIO;

/** Hadoop's raw local file system, which sets permissions by a system call instead of `chmod`. */
public class PenstockFileSystem extends RawLocalFileSystem {
    private static final int SET_ID_BITS = 06000;

    /**
     * Sets the mode of a file, to which links are followed. As `chmod` with a number does, it leaves
     * the set-user-ID and set-group-ID bits of a directory, which a new one inherits, unchanged.
     */
    public void setPermission(Path path, FsPermission permission) throws IOException {
        if (NativeIO.isAvailable()) {  // Hadoop's native library needs no `chmod` either
            super.setPermission(path, permission);
            return;
        }
        java.nio.file.Path file = pathToFile(path).toPath();
        LinkOption[] followed = new LinkOption[0];
        int mode = permission.toShort();
        if (Files.isDirectory(file, followed)) {
            Integer before = (Integer) Files.getAttribute(file, "unix:mode", followed);
            mode |= before.intValue() & SET_ID_BITS;
        }
        Files.setAttribute(file, "unix:mode", Integer.valueOf(mode), followed);
    }
}
