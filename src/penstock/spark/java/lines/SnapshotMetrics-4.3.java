/** The custom metrics of a stateful operator that a trigger without a batch reports. */
class SnapshotMetrics {
    static String namesIn(StateOperatorProgress figures) {
        return figures.snapshotCustomMetricNames().mkString(",");
    }
}
