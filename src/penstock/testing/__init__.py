"""What users test with: memory stream, manual clock, stepping, fault points, crash test."""
