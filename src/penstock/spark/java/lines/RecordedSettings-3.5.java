/** Applies the settings that an entry of the offset log records. */
class RecordedSettings {
    static void restore(OffsetSeqMetadata recorded, ClassicSession session) {
        OffsetSeqMetadata$.MODULE$.setSessionConf(recorded, session.conf());
    }
}
