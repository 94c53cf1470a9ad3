#!/bin/bash
# Brings the shards of slurm-array.sh together and judges them. The first argument is the id of the array job, the second is
# --first-run where there is no baseline yet; then: benchjobs baseline export last --to baseline.json
#SBATCH --job-name=benchmark-gate
#SBATCH --time=00:15:00
#SBATCH --output=gate-%j.log
set -eu
FIRST_RUN="${2:-}"

# Status 10 is a regression, 12 a job that cannot be judged, such as one that lacks a shard.
benchjobs merge "runs/$1"/shard-* --as-job "slurm-$1" --dir reports --junit junit.xml
benchjobs gate last --baseline file:baseline.json --fail-on-regression mean:5pp --fail-on-regression scenario:any \
  $FIRST_RUN
