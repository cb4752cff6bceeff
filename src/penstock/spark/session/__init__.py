"""The session of a query: its settings, listener events and metrics."""
