"""The session of a query: its settings, the events and gauges that it posts."""
