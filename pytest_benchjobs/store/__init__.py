"""Job bundles on disk, which are the truth, and the history, which is an index of them."""
