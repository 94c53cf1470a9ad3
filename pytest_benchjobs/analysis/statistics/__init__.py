"""Statistics of comparisons: pure functions, the same for the same numbers. Explained in docs/statistics.md."""
