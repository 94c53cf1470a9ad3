"""Figures and verdicts over results. Pure functions; history and bundles are read, never written.

Start reading in `summary.py` for figures of a job, `sides.py` for what is compared, `gate/` for verdicts, `baseline/`
for what a job is judged against, `statistics/` for the tests. Imports `model`, `store` and `sources`.
"""
