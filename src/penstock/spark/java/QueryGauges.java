import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;

/** The gauges of a query in Spark's metrics system, with the names that Spark uses. */
public class QueryGauges implements MetricsSource {
    private static final String[] NAMES = {
        "inputRate-total",
        "processingRate-total",
        "latency",
        "eventTime-watermark",
        "states-rowsTotal",
        "states-usedBytes"
    };

    private final MetricsSystem system;
    private final String name;
    private final MetricRegistry registry = new MetricRegistry();
    private volatile Object[] values;

    QueryGauges(MetricsSystem system, String name) {
        this.system = system;
        this.name = name;
        update(0.0, 0.0, 0L, 0L, 0L, 0L);
        for (int i = 0; i < NAMES.length; i++) {
            final int index = i;
            registry.register(NAMES[i], new Gauge() {
                public Object getValue() { return values[index]; }
            });
        }
        system.registerSource(this);
    }

    /** Replaces all values atomically. */
    public void update(
            double inputRate, double processingRate, long latency, long watermark, long rows,
            long bytes) {
        values = new Object[] {
            Double.valueOf(inputRate),
            Double.valueOf(processingRate),
            Long.valueOf(latency),
            Long.valueOf(watermark),
            Long.valueOf(rows),
            Long.valueOf(bytes)
        };
    }

    public void remove() { system.removeSource(this); }

    public String sourceName() { return name; }

    public MetricRegistry metricRegistry() { return registry; }
}
