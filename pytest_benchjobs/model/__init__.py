"""Plain data: what a scenario, an agent, a job and a trial are. No behaviour beyond validation.

Start reading in `scenario.py`, `job.py` and `result.py`. Imports nothing of the package.
"""
