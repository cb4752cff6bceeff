"""The parts of the table of internal classes, which `internal_classes` joins."""
