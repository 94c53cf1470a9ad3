#!/bin/sh
# The problem statement is the standard input, and the file $BENCH_PROBLEM_FILE. The working directory is the scenario's.
here=$(dirname "$0")
files=$(grep -o '/app/[a-z]*[.]txt')
from=$(echo "$files" | head -n 1)
to=$(echo "$files" | tail -n 1)
sort $(cat "$here/options.txt") "$from" > "$to" && echo "sorted $from into $to"
