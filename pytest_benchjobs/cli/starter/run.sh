#!/bin/sh
# Starts the agent of this checkout. The problem statement is the standard input, and the file $BENCH_PROBLEM_FILE; the
# files of this directory are in "$(dirname "$0")", read-only.
#
# Replace the last line by a call of your agent, such as: exec python3 "$(dirname "$0")/main.py" "$BENCH_PROBLEM_FILE"
# What that needs besides the files here has to be in the image of the scenario.
wc -l < in.txt > out.txt
