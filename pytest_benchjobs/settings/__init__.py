"""Settings of a job: each one once, in `table`; the files they are written in, and their layers.

Start reading in `table`. `types` has a type for each kind of value, `parse` reads values from a command line, `files`
and `extra` read profiles, job files and `--bench-extra`, `layers` merges them, and `call` keeps calls of pytest as
data. May import `model`, `sources` and `system`; `table`, `setting` and `call` import only the standard library.
"""
