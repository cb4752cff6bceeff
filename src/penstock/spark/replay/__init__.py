"""A batch of the past, planned again from its recorded offsets: replayed or bisected."""
