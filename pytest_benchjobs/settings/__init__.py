"""What a job is to be: profiles, job files, `--bench-extra`, the matrix, and which of them wins."""
