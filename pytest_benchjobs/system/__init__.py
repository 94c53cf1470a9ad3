"""Resources of the machine: temporary directories, the cache, the garbage collector. Imports only `model`."""
