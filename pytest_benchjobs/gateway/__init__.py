"""The model endpoint every agent talks to: keys, metering, limits, record and replay."""
