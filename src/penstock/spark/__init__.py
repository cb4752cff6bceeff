"""The only room that speaks py4j: plan, sources, sinks, incremental execution, events."""
