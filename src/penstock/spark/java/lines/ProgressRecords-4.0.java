/** Parses a progress record from JSON. */
class ProgressRecords {
    static QueryProgress fromJson(String json) { return QueryProgress$.MODULE$.fromJson(json); }
}
