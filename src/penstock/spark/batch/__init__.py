"""The batches of a query: its plan bound to sources and a sink, planned and run."""
