"""The micro-batch engine. Pure Python: it knows no Spark, no JVM and no file system."""
