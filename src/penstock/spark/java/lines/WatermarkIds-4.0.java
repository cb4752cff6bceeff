/** Identifies watermark operators: by node id, which optimization preserves. */
class WatermarkIds {
    static Object of(EventTimeWatermark operator, int position) { return operator.nodeId(); }

    static Object of(EventTimeWatermarkExec operator, int position) { return operator.nodeId(); }
}
