"""Gate: judges a job by its rules, beside a baseline. Pure functions of numbers; explained in docs/gates.md.

Start with `judge.py`: it puts the rules together into one report. `job.py` adds what is to be said of a job that is not
whole. Rules: `mean_rules.py`, `scenario_rules.py`, `floors.py` and `coverage.py`; `rounds.py` has attempts in rounds.
Imports `model`, `store` and the files of `analysis` beside this room, never `report` or anything above.
"""
