import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.commons.io.IOUtils;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;

/** The objects of a checkpoint in an object store, through Hadoop's connector; see hadoop_store. */
public class StoreObjects {
    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";
    private static final String HEADER = "fs.s3a.create.header";
    private static final String MARK = "penstock-writer";

    private final Path root;
    private final FileSystem files;
    private final boolean isConditional;

    StoreObjects(String location, Configuration conf) throws IOException {
        root = new Path(location);
        files = root.getFileSystem(conf);
        isConditional = files.hasPathCapability(root, CONDITIONAL);
    }

    /** Whether the connector creates an object only if there is none, in the request itself. */
    public boolean isConditional() { return isConditional; }

    /** Whether the connector stores a mark with an object. */
    public boolean keepsMarks() throws IOException {
        return isConditional && files.hasPathCapability(root, HEADER);
    }

    /** Creates an object. The connector sends it when the stream is closed. */
    public void put(String name, byte[] data, String mark) throws IOException {
        FSDataOutputStream output = open(new Path(root, name), mark);
        try {
            output.write(data);
        } finally {
            output.close();
        }
    }

    private FSDataOutputStream open(Path path, String mark) throws IOException {
        if (!isConditional) {
            return files.create(path, false);
        }
        FSDataOutputStreamBuilder builder = files.createFile(path);
        builder.must(CONDITIONAL, true);
        builder.opt("fs.s3a.create.performance", true);
        builder.opt(HEADER + "." + MARK, mark);
        return (FSDataOutputStream) builder.build();
    }

    /** The mark of an object, or null. */
    public String mark(String name) throws IOException {
        byte[] mark = files.getXAttr(new Path(root, name), "header." + MARK);
        return mark == null ? null : new String(mark, "UTF-8");
    }

    public byte[] get(String name) throws IOException {
        FSDataInputStream input = files.open(new Path(root, name));
        try {
            return IOUtils.toByteArray(input);
        } finally {
            input.close();
        }
    }

    public boolean exists(String name) throws IOException {
        return files.exists(new Path(root, name));
    }

    /** One record: the names of the objects directly below a directory. */
    public String list(String directory) throws IOException { return children(directory, false); }

    /** One record: the names of the directories directly below a directory. */
    public String listDirectories(String directory) throws IOException {
        return children(directory, true);
    }

    private String children(String directory, boolean ofDirectories) throws IOException {
        Records names = new Records();
        try {
            RemoteIterator statuses = files.listStatusIterator(new Path(root, directory));
            while (statuses.hasNext()) {
                FileStatus status = (FileStatus) statuses.next();
                if (status.isDirectory() == ofDirectories) {
                    names.add(status.getPath().getName());
                }
            }
        } catch (FileNotFoundException nothing) {
            return "";
        }
        return names.toString();
    }

    public boolean isEmpty(String directory) throws IOException {
        try {
            return !files.listFiles(new Path(root, directory), true).hasNext();
        } catch (FileNotFoundException nothing) {
            return true;
        }
    }

    /** Removes the objects whose names are the fields of a record. */
    public void delete(String names) throws Exception {
        List paths = new ArrayList();
        for (String name : Records.fields(names)) {
            paths.add(new Path(root, name));
        }
        int size = pageSize();
        if (size <= 1) {
            for (Object path : paths) {
                files.delete((Path) path, false);
            }
            return;
        }
        for (int from = 0; from < paths.size(); from += size) {
            deletePage(paths.subList(from, Math.min(from + size, paths.size())));
        }
    }

    /** How many objects the connector removes in one request; 1 before Hadoop 3.4.1. */
    private int pageSize() throws Exception {
        try {
            Object size = Class.forName("org.apache.hadoop.io.wrappedio.WrappedIO")
                .getMethod("bulkDelete_pageSize", new Class[] {FileSystem.class, Path.class})
                .invoke(null, new Object[] {files, root});
            return ((Integer) size).intValue();
        } catch (ClassNotFoundException e) {
            return 1;
        }
    }

    private void deletePage(List paths) throws Exception {
        List failures = (List) Class.forName("org.apache.hadoop.io.wrappedio.WrappedIO")
            .getMethod("bulkDelete_delete",
                new Class[] {FileSystem.class, Path.class, java.util.Collection.class})
            .invoke(null, new Object[] {files, root, paths});
        if (!failures.isEmpty()) {
            throw new IOException(
                failures.size() + " objects were not removed, the first: " + failures.get(0));
        }
    }

    public void deleteAll() throws IOException { files.delete(root, true); }
}
