"""What takes the rows of a batch."""
