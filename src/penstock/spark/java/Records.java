/** Encodes several values in one string, to pass them between Java and Python in one call. */
class Records {
    private final StringBuilder text = new StringBuilder();

    Records add(Object value) {
        String field = String.valueOf(value);
        field = field.replace("%", "%25").replace("\u001f", "%1F").replace("\u001e", "%1E");
        text.append(field).append('\u001f');
        return this;
    }

    void end() { text.append('\u001e'); }

    public String toString() { return text.toString(); }

    /** Decodes a record that Python encoded. */
    static String[] fields(String record) {
        String[] ended = record.split("\u001f", -1);
        String[] fields = new String[ended.length - 1];
        for (int i = 0; i < fields.length; i++) {
            fields[i] = ended[i].indexOf('%') < 0 ? ended[i]
                : ended[i].replace("%1E", "\u001e").replace("%1F", "\u001f").replace("%25", "%");
        }
        return fields;
    }
}
