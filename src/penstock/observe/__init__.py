"""Observation of running queries: snapshots, health, live views. Never changes a query."""
