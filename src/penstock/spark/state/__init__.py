"""State of stateful operators: commit tracking, checkpoint ids, operator metadata."""
