/** Identifies watermark operators: by their position among all watermark operators. */
class WatermarkIds {
    static Object of(EventTimeWatermark operator, int position) {
        return Integer.valueOf(position);
    }

    static Object of(EventTimeWatermarkExec operator, int position) {
        return Integer.valueOf(position);
    }
}
