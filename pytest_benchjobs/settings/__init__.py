"""Settings of a job: every one once, in `table`; where they are written, and which layer wins.

Start reading at `table`. `types` has a type for each kind of value, `parse` reads values from a command line, `files`
and `extra` read profiles, job files and `--bench-extra`, `layers` merges them, and `call` keeps what pytest was called
with as data. May import `model`, `sources` and `system`; `table`, `setting` and `call` need the standard library alone.
"""
