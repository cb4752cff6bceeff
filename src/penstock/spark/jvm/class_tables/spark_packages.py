"""The names of the packages of Spark whose classes Penstock uses."""

SQL = "org.apache.spark.sql"
CATALYST = f"{SQL}.catalyst"
STREAMING = f"{SQL}.execution.streaming"
