/** The settings that an entry of the offset log has. */
class RecordedSettings {
    static void restore(OffsetSeqMetadata recorded, ClassicSession session) {
        OffsetSeqMetadata$.MODULE$.setSessionConf(recorded, session.conf());
    }
}
