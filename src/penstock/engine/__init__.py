"""The micro-batch engine. Pure Python: it knows no Spark, no py4j and no file system."""
