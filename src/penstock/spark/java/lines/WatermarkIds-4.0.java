/** What the operators that define watermarks go by: ids, which stay as a plan is optimized. */
class WatermarkIds {
    static Object of(EventTimeWatermark operator, int position) { return operator.nodeId(); }

    static Object of(EventTimeWatermarkExec operator, int position) { return operator.nodeId(); }
}
