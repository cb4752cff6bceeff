/** What the operators that define watermarks go by: their positions among themselves. */
class WatermarkIds {
    static Object of(EventTimeWatermark operator, int position) {
        return Integer.valueOf(position);
    }

    static Object of(EventTimeWatermarkExec operator, int position) {
        return Integer.valueOf(position);
    }
}
