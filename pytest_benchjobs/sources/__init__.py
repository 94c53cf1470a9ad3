"""Where scenarios come from."""
