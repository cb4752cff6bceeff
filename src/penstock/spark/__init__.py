"""The only package that uses py4j: plan, sources, sinks, incremental execution, events."""
