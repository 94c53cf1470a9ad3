"""The model endpoint every agent talks to: keys, metering, limits, record and replay.

A process of its own. Start reading with `client.py`, the side of pytest, and `route.py`, the side of one trial: a call
passes `passing.py`, `exchange.py` and `upstream.py`; `meter.py` reads its usage, `state.py` and `budget.py` count it.
Imports `sources`, `store` and `model`.
"""
