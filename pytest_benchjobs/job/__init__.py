"""The engine of jobs, from a job's beginning to its end. Does not import pytest.

It may import `report` and everything below, and is used by `plugin` and `cli`. Start reading in `running`, a job in one
process; then `trials`, the way of a trial from ticket to result, `trial_fate`, which decides whether it runs, and
`end`, the only place that writes the end of a job.
"""
