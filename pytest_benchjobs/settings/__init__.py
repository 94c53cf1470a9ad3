"""What a job is to be: profiles, job files, `--bench-extra`, the matrix, and which of them wins."""

VARIABLES = "BENCHJOBS_ENV"
"""Variable with variables for agents, as a JSON object: what is on a command line, everybody on the machine can see."""
