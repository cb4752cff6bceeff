"""Plans a past batch again from its recorded offsets, for replay and bisect."""
