"""Agents: their descriptions, programs, calls and output.

Start reading with `protocol.py`, which every agent implements, then `catalogue.py`, which finds agents. `described.py`
makes an agent from a description (`descriptions/`); `builtin.py` and `fixed_results.py` have those without one.
`packages.py` and `fetch.py` get programs, `providers.py` knows models' endpoints, `reading/` reads output. Imports
`sandbox`, `sources`, `store` and `model`.
"""
