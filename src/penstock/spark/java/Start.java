import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Arrays;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.read.streaming.AcceptsLatestSeenOffset;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.mutable.HashMap;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/** The steps of a start that Python calls, each in one py4j call. */
public class Start {
    public StreamingPlan plan(LogicalPlan analyzed) { return new StreamingPlan(analyzed); }

    /** One record for each streaming leaf: its options, keys and values alternating. */
    public String sourceOptions(LogicalPlan analyzed) {
        return new StreamingPlan(analyzed).sourceOptions();
    }

    public BatchPlanner planner(
            ClassicSession session, StreamingPlan leaves, LogicalPlan write, OutputMode outputMode,
            String statePath, String queryId, String runId, HashMap stateIds,
            boolean isTerminating) {
        return new BatchPlanner(
            session, leaves, write, outputMode, statePath, queryId, runId, stateIds, isTerminating);
    }

    public BatchOutput output() { return new BatchOutput(); }

    public Figures figures() { return new Figures(); }

    public StoreObjects store(String root, Configuration conf) throws IOException {
        return new StoreObjects(root, conf);
    }

    /**
     * Reads settings: `=` and the value if there is one, after a `!` if it is set explicitly.
     * Empty for a setting of Spark SQL that this Spark does not have, even if it is set.
     */
    public String settings(ClassicSession session, String keys) {
        Records values = new Records();
        for (String key : Records.fields(keys)) {
            if (!isKnown(key)) {
                values.add("");
                continue;
            }
            Option value = session.conf().getOption(key);
            boolean isSet = session.sessionState().conf().contains(key);
            values.add((isSet ? "!" : "") + (value.isDefined() ? "=" + value.get() : ""));
        }
        return values.toString();
    }

    /** Whether this Spark has a setting. No Spark registers that of the file manager. */
    private static boolean isKnown(String key) {
        return !key.startsWith("spark.sql.") || SQLConf$.MODULE$.containsConfigKey(key)
            || key.equals("spark.sql.streaming.checkpointFileManagerClass");
    }

    /** Changes settings; keys and values alternate. */
    public void configure(ClassicSession session, String keysAndValues) {
        String[] texts = Records.fields(keysAndValues);
        for (int i = 0; i + 1 < texts.length; i += 2) {
            session.conf().set(texts[i], texts[i + 1]);
        }
    }

    /** The settings that an entry of the offset log records. */
    public String recordable(ClassicSession session) {
        return OffsetSeqMetadata$.MODULE$.apply(0L, 0L, session.conf()).json();
    }

    /** Applies the settings that an entry of the offset log records. */
    public void restore(ClassicSession session, String metadata) {
        RecordedSettings.restore(OffsetSeqMetadata$.MODULE$.apply(metadata), session);
    }

    /** Sets what the jobs of a batch are called in Spark's web UI; no call site if it is null. */
    public void describeJobs(
            SparkContext context, String batchId, String description, String shortSite,
            String longSite) {
        context.setJobDescription(description);
        context.setLocalProperty("streaming.sql.batchId", batchId);
        if (shortSite != null) {
            context.setLocalProperty("callSite.short", shortSite);
            context.setLocalProperty("callSite.long", longSite);
        }
    }

    /** A Map of alternating keys and values. */
    public Map map(String keysAndValues) {
        String[] texts = Records.fields(keysAndValues);
        HashMap map = new HashMap();
        for (int i = 0; i + 1 < texts.length; i += 2) {
            map.put(texts[i], texts[i + 1]);
        }
        return Maps.immutable(map);
    }

    /** Sets or clears (null) the active session. Returns the previous one, or null. */
    public ClassicSession activate(ClassicSession session) {
        Option before = ClassicSession.getActiveSession();
        if (session == null) {
            ClassicSession.clearActiveSession();
        } else {
            ClassicSession.setActiveSession(session);
        }
        return before.isDefined() ? (ClassicSession) before.get() : null;
    }

    /**
     * Runs Spark's analyzer, which checks a query and resolves its checkpoint location. Only
     * Spark's own engine uses the trigger, so that any will do.
     */
    public LogicalPlan analyze(
            ClassicDataset rows, String queryName, String sinkName, String checkpoint,
            boolean mayBeTemporary, boolean recovers, Table sink, OutputMode outputMode,
            Tuple2 catalogAndIdent, Object catalogTable) {
        rows.queryExecution().assertAnalyzed();
        SessionState state = ((ClassicSession) rows.sparkSession()).sessionState();
        LogicalPlan statement = ${new WriteToStreamStatement(
            userSpecifiedName = Option.apply(queryName),
            userSpecifiedSinkName = Option.apply(sinkName),
            userSpecifiedCheckpointLocation = Option.apply(checkpoint),
            useTempCheckpointLocation = mayBeTemporary, recoverFromCheckpointLocation = recovers,
            sink = sink, outputMode = outputMode, hadoopConf = state.newHadoopConf(),
            trigger = Trigger.ProcessingTime(0L), isContinuousTrigger = false,
            inputQuery = rows.queryExecution().analyzed(),
            catalogAndIdent = Option.apply(catalogAndIdent),
            catalogTable = Option.apply(catalogTable))};
        return state.executePlan(statement, CommandExecutionMode.ALL()).analyzed();
    }

    /**
     * One record of an analyzed query: its checkpoint location, whether that is deleted in the end,
     * and whether a rule of a session extension has replaced the sink it was analyzed with.
     */
    public String describeStart(LogicalPlan analyzed, Table sink) {
        WriteToStream write = (WriteToStream) analyzed;
        return new Records().add(write.resolvedCheckpointLocation())
            .add(write.deleteCheckpointOnStop()).add(write.sink() != sink).toString();
    }

    /** The table of a V2 format that supports streaming writes; else null. */
    public Table tableOf(ClassicSession session, String format, Map options, StructType schema)
            throws Exception {
        SQLConf conf = session.sessionState().conf();
        Class kind = DataSource$.MODULE$.lookupDataSource(format, conf);
        String disabled = session.conf().get("spark.sql.streaming.disabledV2Writers");
        // Spark's V2 file sources do not support streaming.
        if (!TableProvider.class.isAssignableFrom(kind)
            || FileDataSourceV2.class.isAssignableFrom(kind)
            || Arrays.asList(disabled.trim().split("\\s*,\\s*")).contains(kind.getCanonicalName())) {
            return null;
        }
        TableProvider provider =
            (TableProvider) kind.getConstructor(new Class[0]).newInstance(new Object[0]);
        PythonProviders.setName(provider, format);
        TreeMap given = new TreeMap(String.CASE_INSENSITIVE_ORDER);
        given.putAll(Maps.asJava(DataSourceV2Utils.extractSessionConfigs(provider, conf)));
        java.util.Map own = Maps.asJava(options);
        for (Object key : own.keySet()) { given.remove(key); }
        given.putAll(own);
        Table table = DataSourceV2Utils.getTableFromProvider(
            provider, new CaseInsensitiveStringMap(given),
            Option.apply(provider.supportsExternalMetadata() ? schema : null));
        return table instanceof SupportsWrite
            && table.capabilities().contains(TableCapability.STREAMING_WRITE) ? table : null;
    }

    /** One record: the name of a stream, then the interfaces that it supports. */
    public String describeStream(SparkDataStream stream) throws NoSuchMethodException {
        boolean admits = stream instanceof SupportsAdmissionControl;
        boolean reports = admits && stream.getClass().getMethod("reportLatestOffset", new Class[0])
            .getDeclaringClass() != SupportsAdmissionControl.class;
        return new Records().add(stream).add(admits)
            .add(stream instanceof SupportsTriggerAvailableNow)
            .add(stream instanceof AcceptsLatestSeenOffset)
            .add(stream instanceof ReportsSourceMetrics).add(reports).toString();
    }

    /** One record: the name of a sink, whether it is V1 or V2, and what it supports. */
    public String describeSink(Object sink) {
        return new Records().add(sink).add(sink instanceof V1Sink)
            .add(sink instanceof SupportsWrite).add(sink instanceof ReportsSinkMetrics)
            .add(sink instanceof FileStreamSink).toString();
    }

    /** A sink that does nothing, for the plan of a query whose sink is a Python function. */
    public V1Sink noSink() {
        return ${new ForeachBatchSink(
            batchWriter = new AbstractFunction2() {
                public Object apply(Object batch, Object batchId) {
                    return BoxedUnit.UNIT;
                }
            },
            encoder = ExpressionEncoder.apply(new StructType()))};
    }

    /** The plan of a batch of a V1 source; its text if the plan is not streaming. */
    public Object batchOf(Source source, Object start, Object end) {
        ClassicDataset rows = (ClassicDataset) source.getBatch(Option.apply(start), (V1Offset) end);
        return rows.isStreaming() ? rows.logicalPlan() : rows.queryExecution().logical().toString();
    }

    /** The log of a file source; null if Spark deletes its expired entries, or nobody does. */
    public FileLog logOf(Source source) { return FileLog.of(source, "metadataLog"); }

    /** One record for each file in some batches of the log of a file source: path, timestamp. */
    public String filesBetween(FileStreamSourceLog log, long first, long last) {
        Records records = new Records();
        Object[] batches = (Object[]) log.get(
            Option.apply(Long.valueOf(first)), Option.apply(Long.valueOf(last)));
        for (int i = 0; i < batches.length; i++) {
            Object[] files = (Object[]) ((Tuple2) batches[i])._2();
            for (int j = 0; j < files.length; j++) {
                FileEntry file = (FileEntry) files[j];
                records.add(file.path()).add(file.timestamp()).end();
            }
        }
        return records.toString();
    }

    /** Copies a file or a directory, which is replaced if it exists. */
    public void copy(String from, String to, Configuration conf) throws IOException {
        Path source = new Path(from);
        Path target = new Path(to);
        FileSystem files = target.getFileSystem(conf);
        files.delete(target, true);
        boolean done = FileUtil.copy(
            source.getFileSystem(conf), source, files, target, false, true, conf);
        if (!done) { throw new IOException(from + " could not be copied to " + to); }
    }

    /** Parses a progress record from JSON without observed metrics. */
    public QueryProgress progress(String json) throws Exception {
        return ProgressRecords.fromJson(json);
    }

    /** Posts a progress record to Spark's listeners. Returns the session's progress retention. */
    public int postProgress(QueryManager listeners, ClassicSession session, String json)
            throws Exception {
        listeners.postListenerEvent(new QueryProgressEvent(progress(json)));
        return session.sessionState().conf().streamingProgressRetention();
    }

    /** A client that commits offsets to consumer groups, until `close`. */
    public KafkaGroup kafkaGroup(Object stream, String options) throws Throwable {
        return new KafkaGroup(stream, options);
    }

    /** A connection as Spark's JDBC data source opens it with these options, until `close`. */
    public JdbcSession jdbc(Map options) { return new JdbcSession(options); }

    /** Registers gauges in the metrics system of an application, until `remove`. */
    public QueryGauges gauges(SparkContext context, String name) throws Throwable {
        return new QueryGauges(metricsSystem(context), name);
    }

    /**
     * The metrics system of an application, by method handle: reflection over SparkEnv fails if a
     * class in the signature of another method is not on the class path.
     */
    public MetricsSystem metricsSystem(SparkContext context) throws Throwable {
        return (MetricsSystem) MethodHandles.publicLookup()
            .findVirtual(
                SparkEnv.class, "metricsSystem", MethodType.methodType(MetricsSystem.class))
            .invokeWithArguments(new Object[] {context.env()});
    }

    /** Whether Spark's own engine runs a query in this JVM. */
    public boolean isRunBySpark(ClassicSession session, String queryId) {
        return session.sharedState().activeStreamingQueries().containsKey(UUID.fromString(queryId));
    }
}
