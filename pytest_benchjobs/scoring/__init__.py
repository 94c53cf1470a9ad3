"""How a finished trial is graded."""
