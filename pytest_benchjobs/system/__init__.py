"""Resources of the machine: temporary directories, the cache, and the garbage collector. Imports only `model`."""
