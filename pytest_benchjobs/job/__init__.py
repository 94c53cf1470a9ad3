"""The engine of jobs: a job from its beginning to its end. Knows no pytest.

It may import `report` and everything below, and is used by `plugin` and `cli`. Start reading in `running`, a job as one
process sees it; then `trials`, the way of a trial from its ticket to its result, `fate`, which decides whether it runs,
and `end`: the end of a job is written in one place, whoever ends it.
"""
