/** What else the optimizer may read for a batch: the settings of the session, and the day. */
class Surroundings {
    private static final long QUARTER_OF_AN_HOUR_MS = 900000;

    private final java.util.Map settings;
    private final long quarter;

    /**
     * The date changes in no time zone within a quarter of an hour, as its offset from UTC is a
     * multiple of one. Zones that a user makes up of other minutes are of no concern: the plans
     * whose optimization reads the clock are not kept, as far as they are recognised.
     */
    Surroundings(ClassicSession session, long timestampMs) {
        settings = new java.util.HashMap(session.sessionState().conf().settings());
        quarter = Math.floorDiv(timestampMs, QUARTER_OF_AN_HOUR_MS);
    }

    public boolean equals(Object other) {
        return other instanceof Surroundings && quarter == ((Surroundings) other).quarter
            && settings.equals(((Surroundings) other).settings);
    }

    public int hashCode() { return settings.hashCode(); }
}
