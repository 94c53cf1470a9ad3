"""Results on disk: bundles of jobs, which are the truth, and the history, an index of them in SQLite.

Start reading in `layout.py`: it lists all files. `bundle.py` reads and writes a job, `trials.py` a trial of it;
`reader.py` queries the history, `history.py` writes it, `index.py` rebuilds it from bundles; `results.py` finds the job
that a user names. Imports `model`, `sources` and `system`; nothing here knows how trials run or what reports show.
"""
