"""Access to the JVM: Spark classes by name, Penstock's Java classes, errors, version support."""
