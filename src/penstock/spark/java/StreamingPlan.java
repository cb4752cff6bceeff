import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.Nil$;

/** The analyzed plan of a query, and the current data of its streaming leaves. */
public class StreamingPlan {
    private final LogicalPlan plan;
    private final List leaves;
    /** For each leaf the index of the first that equals it, which has the data of both. */
    private final int[] first;
    private final java.util.Map indices = new java.util.IdentityHashMap();
    private final LogicalPlan[] data;
    private final V2Scan[] scans;
    private final SparkDataStream[] streams;

    StreamingPlan(LogicalPlan plan) {
        this.plan = plan;
        leaves = leavesBelow(plan);
        data = new LogicalPlan[leaves.size()];
        scans = new V2Scan[leaves.size()];
        streams = new SparkDataStream[leaves.size()];
        first = new int[leaves.size()];
        for (int i = 0; i < first.length; i++) {
            first[i] = leaves.indexOf(leaf(i));
            indices.put(leaf(i), Integer.valueOf(first[i]));
        }
    }

    /** One record for each operator, each watermark and each streaming leaf. */
    public String describe() {
        Records records = new Records();
        int position = 0;
        for (Iterator nodes = everyNode(Definitions.inlined(plan)); nodes.hasNext();) {
            LogicalPlan node = (LogicalPlan) nodes.next();
            boolean hasNoKeys = node instanceof Aggregate
                && ((Aggregate) node).groupingExpressions().isEmpty();
            records.add("operator").add(node.getClass().getSimpleName());
            records.add(node.isStreaming()).add(joinsStreams(node)).add(hasNoKeys).end();
            if (node instanceof EventTimeWatermark) {
                EventTimeWatermark watermark = (EventTimeWatermark) node;
                records.add("watermark").add(WatermarkIds.of(watermark, position++));
                records.add(watermark.eventTime().name());
                records.add(EventTimeWatermark.getDelayMs(watermark.delay()));
                List below = leavesBelow(node);
                for (int i = 0; i < below.size(); i++) {
                    records.add(leaves.indexOf(below.get(i)));
                }
                records.end();
            }
        }
        for (int i = 0; i < leaves.size(); i++) {
            describeLeaf(i, records);
        }
        return records.toString();
    }

    /** Whether the plan has a stream-stream join. */
    boolean joinsStreams() {
        for (Iterator nodes = everyNode(Definitions.inlined(plan)); nodes.hasNext();) {
            if (joinsStreams((LogicalPlan) nodes.next())) { return true; }
        }
        return false;
    }

    private static boolean joinsStreams(LogicalPlan node) {
        return node instanceof Join
            && ((Join) node).left().isStreaming() && ((Join) node).right().isStreaming();
    }

    private void describeLeaf(int index, Records records) {
        LogicalPlan node = leaf(index);
        DataSource v1 = v1Source(node);
        Option name = SourceNames.nameOf(node);
        boolean isV2 = node instanceof StreamingRelationV2;
        records.add("leaf").add(first[index]).add(isV2);
        records.add(name.isDefined() ? "=" + name.get() : "").add(v1 != null);
        records.add(!isV2 && v1.catalogTable().isDefined());
        records.add(v1 != null && FileFormat.class.isAssignableFrom(v1.providingClass()));
        records.add(hasFileMetadata(node));
        if (isV2) {
            StreamingRelationV2 v2 = (StreamingRelationV2) node;
            Object provider = v2.source().isDefined() ? v2.source().get() : null;
            records.add(v2.sourceName()).add(provider == null ? "" : "[" + provider + "]");
            records.add(v2.table().capabilities().contains(TableCapability.MICRO_BATCH_READ));
            records.add(provider == null ? "" : provider.getClass().getCanonicalName());
            records.add(v2.table()).add(v2.sourceName());
        } else {
            records.add(((StreamingRelation) node).sourceName()).add("[" + v1 + "]");
            records.add(false).add("").add("").add(v1.className());
        }
        addOptions(node, records);
        records.end();
    }

    /** One record for each streaming leaf: its options. */
    String sourceOptions() {
        Records records = new Records();
        for (int i = 0; i < leaves.size(); i++) {
            addOptions(leaf(i), records);
            records.end();
        }
        return records.toString();
    }

    /** Adds the options of a leaf to a record, keys and values alternating. */
    private static void addOptions(LogicalPlan node, Records records) {
        java.util.Map options = node instanceof StreamingRelationV2
            ? ((StreamingRelationV2) node).extraOptions().asCaseSensitiveMap()
            : Maps.asJava(((StreamingRelation) node).dataSource().options());
        for (Object option : options.entrySet()) {
            java.util.Map.Entry entry = (java.util.Map.Entry) option;
            records.add(entry.getKey()).add(entry.getValue());
        }
    }

    public LogicalPlan leaf(int index) { return (LogicalPlan) leaves.get(index); }

    public LogicalPlan data(int index) { return data[index]; }

    /** Opens the V2 stream that a leaf reads. */
    public SparkDataStream openV2(int index, String path) {
        StreamingRelationV2 node = (StreamingRelationV2) leaf(index);
        scans[index] = new V2Scan(node, Scans.of(node), path);
        streams[index] = scans[index].stream();
        return streams[index];
    }

    /** Opens the V1 source that a leaf reads, in the query's own session. */
    public SparkDataStream openV1(int index, ClassicSession session, String path) {
        DataSource source = v1Source(leaf(index));
        boolean readsFiles = FileFormat.class.isAssignableFrom(source.providingClass())
            && !StreamSourceProvider.class.isAssignableFrom(source.providingClass());
        return readsFiles ? openFiles(source, session, path) : openOther(source, session, path);
    }

    /** With the schema of the DataFrame: it is not inferred anew from files that have changed. */
    private static SparkDataStream openFiles(
            DataSource source, ClassicSession session, String path) {
        CaseInsensitiveMap options = CaseInsensitiveMap$.MODULE$.apply(source.options());
        return ${new FileStreamSource(
            sparkSession = session, path = (String) options.apply("path"),
            fileFormatClassName = source.className(), schema = source.sourceInfo().schema(),
            partitionColumns = source.sourceInfo().partitionColumns(), metadataPath = path,
            options = options)};
    }

    private static SparkDataStream openOther(
            DataSource source, ClassicSession session, String path) {
        return ${new DataSource(
            sparkSession = session, className = source.className(), paths = source.paths(),
            userSpecifiedSchema = source.userSpecifiedSchema(),
            partitionColumns = source.partitionColumns(), bucketSpec = source.bucketSpec(),
            options = source.options(), catalogTable = source.catalogTable(),
            userSpecifiedStreamingSourceName = source.userSpecifiedStreamingSourceName())}
            .createSource(path);
    }

    /** Replaces a leaf by an empty relation, which needs no stream for row counts. */
    public void setEmpty(int index) {
        data[index] = ${new LocalRelation(
            output = leaf(index).output(), data = Nil$.MODULE$, isStreaming = true,
            stream = Option.empty())};
    }

    /** Replaces a leaf by a scan of its stream between two offsets. */
    public void setScan(int index, Offset start, Offset end) {
        data[index] = scans[index].between(start, end);
    }

    /** Replaces a leaf by several scans of its stream, each between two offsets. */
    public void setScans(int index, List starts, List ends) {
        List parts = new ArrayList();
        for (int i = 0; i < starts.size(); i++) {
            parts.add(scans[index].between((Offset) starts.get(i), (Offset) ends.get(i)));
        }
        data[index] = union(parts);
    }

    /** The union of plans with the same columns. The analyzer makes their attributes unique. */
    public LogicalPlan union(List plans) {
        scala.collection.immutable.List children = Nil$.MODULE$;
        for (int i = plans.size() - 1; i >= 0; i--) {
            children = new $colon$colon(plans.get(i), children);
        }
        return ${new Union(children = children, byName = false, allowMissingCol = false)};
    }

    /** Replaces a leaf by a plan. Returns null, or the plan's columns if they do not fit. */
    public String setPlan(int index, LogicalPlan rows, SparkDataStream stream) {
        Seq wanted = leaf(index).output();
        if (rows.output().size() != wanted.size()) { return rows.output().mkString(","); }
        scala.collection.immutable.List columns = Nil$.MODULE$;
        for (int i = wanted.size() - 1; i >= 0; i--) {
            Attribute from = (Attribute) rows.output().apply(i);
            Attribute to = (Attribute) wanted.apply(i);
            // The analyzer of Spark 4.0 removes explicit metadata that is empty.
            boolean isPlain = Metadata.empty().equals(from.metadata());
            columns = new $colon$colon(${new Alias(
                child = from, name = to.name(), exprId = to.exprId(), qualifier = Nil$.MODULE$,
                explicitMetadata = isPlain ? Option.empty() : Option.apply(from.metadata()),
                nonInheritableMetadataKeys = Nil$.MODULE$)}, columns);
        }
        streams[index] = stream;
        data[index] = ${new Project(
            projectList = columns, child = SourceRows.ofStream(rows, stream))};
        return null;
    }

    /** Whether all leaves read V2 streams. */
    boolean readsV2Only() {
        for (int each : first) {
            if (scans[each] == null) { return false; }
        }
        return true;
    }

    /** The stream of each leaf; null if it is not open, or if an equal leaf comes before it. */
    SparkDataStream[] streams() { return streams; }

    /** The streams that the leaves of a batch's plan were read from. */
    java.util.Map streamsOfParts() {
        java.util.Map found = new java.util.HashMap();
        for (int i = data.length - 1; i >= 0; i--) {
            if (data[i] == null) { continue; }
            for (Iterator parts = data[i].collectLeaves().iterator(); parts.hasNext();) {
                found.put(parts.next(), streams[i]);
            }
        }
        return found;
    }

    /**
     * The data of all leaves, if each is empty or one scan of a V2 stream without statistics, so
     * that it tells the optimizer nothing but its columns; otherwise null.
     */
    LogicalPlan[] plainData() {
        for (int each : first) {
            boolean isPlainScan = V2Scan.isScan(data[each]) && !scans[each].reportsStatistics();
            if (!isPlainScan && !(data[each] instanceof LocalRelation)) { return null; }
        }
        return (LogicalPlan[]) data.clone();
    }

    /** The write plan with the streaming leaves replaced by their data. */
    LogicalPlan withData(LogicalPlan write) {
        return (LogicalPlan) write.transform(new Everywhere() {
            Object of(Object node) {
                int index = isStreamingLeaf(node) ? indexOf(node) : -1;
                return index < 0 ? node : data[index];
            }
        });
    }

    private int indexOf(Object leaf) {
        Integer known = (Integer) indices.get(leaf);
        return known == null ? leaves.indexOf(leaf) : known.intValue();
    }

    private static boolean hasFileMetadata(LogicalPlan node) {
        for (Iterator columns = node.output().iterator(); columns.hasNext();) {
            AttributeReference column = (AttributeReference) columns.next();
            if (FileSourceMetadataAttribute.unapply(column).isDefined()) { return true; }
        }
        return false;
    }

    /** The V1 data source of a leaf; null if it has only a V2 one. */
    private static DataSource v1Source(LogicalPlan node) {
        if (node instanceof StreamingRelationV2) {
            Option v1 = ((StreamingRelationV2) node).v1Relation();
            return v1.isDefined() ? ((StreamingRelation) v1.get()).dataSource() : null;
        }
        return ((StreamingRelation) node).dataSource();
    }

    static boolean isStreamingLeaf(Object node) {
        return node instanceof StreamingRelation || node instanceof StreamingRelationV2;
    }

    private static List leavesBelow(LogicalPlan plan) {
        List found = new ArrayList();
        for (Iterator nodes = everyNode(plan); nodes.hasNext();) {
            Object node = nodes.next();
            if (isStreamingLeaf(node)) { found.add(node); }
        }
        return found;
    }

    static Iterator everyNode(LogicalPlan plan) {
        return plan.collect(new InstancesOf(LogicalPlan.class)).iterator();
    }
}
