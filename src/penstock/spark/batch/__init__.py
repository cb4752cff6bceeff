"""Binds the plan of a query to its sources and sink, and plans and runs its batches."""
