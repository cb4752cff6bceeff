/** The record of a trigger, read from JSON. */
class ProgressRecords {
    static QueryProgress fromJson(String json) { return QueryProgress$.MODULE$.fromJson(json); }
}
