"""What the machine gives this package: temporary directories, and when garbage is collected. Imports only `model`."""
