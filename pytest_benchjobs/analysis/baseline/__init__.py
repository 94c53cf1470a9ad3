"""Baselines, which jobs are judged against. Start with `resolve.py`: it turns a spec into one side of a comparison.

`candidates.py` chooses among the jobs of the history, `file.py` reads a committed file, a job's directory or a report.
Imports `model`, `store` and the files of `analysis` beside this room, never `report` or anything above.
"""
