"""What a running query shows: snapshots, health, live views. Only listens."""
