"""Results on disk: bundles of jobs, which are the truth, and the history, an index of them in SQLite.

Start reading in `layout.py`: it draws all files. `bundle.py` reads and writes a job, `trials.py` a trial of it;
`reader.py` asks the history, `history.py` writes it, `index.py` makes it of bundles; `results.py` finds a job by what a
user types. Imports `model`, `sources` and `system`; nothing here knows how a trial runs or what is made of results.
"""
