"""A simulated world for the real engine."""
