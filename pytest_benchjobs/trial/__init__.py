"""One trial, from its start to its score.

Begin at `run.py`. Jobs stand above this room: they know how many trials there are.
"""
