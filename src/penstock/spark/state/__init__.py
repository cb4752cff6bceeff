"""The records of stateful operators: commits, ids, metadata."""
