#!/bin/bash
# Four shards as an array job, then one job that brings them together and judges them:
#
#   array=$(sbatch --parsable slurm-array.sh)
#   sbatch --dependency="afterany:$array" slurm-merge.sh "$array"
#
# Nodes need Docker or Podman for the user of the job; Apptainer is not supported. The directory is shared by all nodes.
#SBATCH --job-name=benchmark
#SBATCH --array=1-4
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=02:00:00
#SBATCH --output=shard-%A-%a.log
set -eu

# A directory of results for each shard: nodes share no history. With `gate`, trials that fail do not fail the task.
pytest benchmarks -q --bench-agent "${AGENT:-oracle}" --bench-attempts 5 \
  --bench-shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" \
  --bench-dir "runs/$SLURM_ARRAY_JOB_ID/shard-$SLURM_ARRAY_TASK_ID" \
  --bench-job-timeout 6000 --bench-retry-errors 1 --bench-exit gate
