"""The plan of a query: its operators, watermarks, warnings, planning and statistics."""
