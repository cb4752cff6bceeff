"""What is known of a plan: its operators, watermarks, warnings, planning and figures."""
