#!/bin/sh
# The problem statement is the standard input.
files=$(grep -o '/app/[a-z]*[.]txt')
from=$(echo "$files" | head -n 1)
to=$(echo "$files" | tail -n 1)
sort "$@" "$from" > "$to" && echo "sorted $from into $to"
