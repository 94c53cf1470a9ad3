"""Gates judge a job by rules, against a baseline. Pure functions of numbers; explained in docs/gates.md.

Start with `judge.py`: it combines the rules into one report. `job.py` handles incomplete jobs and exit statuses. Rules
are in `mean_rules.py`, `scenario_rules.py`, `floors.py` and `coverage.py`; `rounds.py` has attempts in rounds.
Imports `model`, `store` and the files of `analysis` beside this room, never `report` or anything above.
"""
