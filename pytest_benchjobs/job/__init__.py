"""The engine of jobs: a job from its beginning to its end. Knows no pytest.

It may import `report` and everything below, and is used by `plugin` and `cli`. Start reading in `running`, what a job
does with a trial that is handed in, and in `end`: the end of a job is written in one place, whoever ends it.
"""
