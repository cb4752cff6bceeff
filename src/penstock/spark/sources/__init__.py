"""The streaming leaves of a plan and the streams that they read."""
