"""The sinks of a query: how one is chosen, and how batches are written to it."""
