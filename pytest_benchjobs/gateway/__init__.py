"""The model endpoint every agent talks to: keys, metering, limits, record and replay.

A process of its own. Start reading with `client.py`, the side of pytest, and `route.py`, the side of one trial: a call
passes `exchange.py` and `retrying.py`; `meter.py` reads its usage, `prices.py` has what it costs, and
`accounting.py` counts it, against the limits in `budget.py`. Imports `sandbox`, `sources`,
`store` and `model`.
"""
