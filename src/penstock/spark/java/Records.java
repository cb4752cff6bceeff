/** Several values in one text, so that they cross to Python in one call. */
class Records {
    private final StringBuilder text = new StringBuilder();

    Records add(Object value) {
        text.append(value).append('\u001f');
        return this;
    }

    void end() { text.append('\u001e'); }

    public String toString() { return text.toString(); }
}
