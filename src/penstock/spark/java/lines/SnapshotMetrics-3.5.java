/** The custom metrics of a stateful operator that a trigger without a batch reports: all. */
class SnapshotMetrics {
    static String namesIn(StateOperatorProgress figures) {
        return String.join(",", figures.customMetrics().keySet());
    }
}
