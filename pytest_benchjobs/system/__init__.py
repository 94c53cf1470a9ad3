"""Resources of the machine: temporary directories, and the garbage collector. Imports only `model`."""
