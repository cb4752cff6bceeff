"""The JVM behind a session: classes by name, Penstock's Java classes, errors, what is supported."""
