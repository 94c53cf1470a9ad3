"""Reads rollouts.jsonl and prints the advantage of each attempt within its group, as group-relative methods have it."""

import itertools
import json
import statistics
import sys
from pathlib import Path


def main(path: str) -> None:
    """Print a line for each attempt of the file."""
    with Path(path).open(encoding="utf-8") as file:
        attempts = map(json.loads, file)
        for _, lines in itertools.groupby(attempts, key=lambda attempt: attempt["group"]):
            group = list(lines)
            mean = statistics.fmean(attempt["score"] for attempt in group)
            for attempt in group:
                command = json.loads(attempt["messages"][0]["tool_calls"][0]["arguments"])["command"]
                advantage = attempt["score"] - mean
                sys.stdout.write(f"{attempt['scenario']} {attempt['attempt']}: {advantage:+.2f}  {command}\n")


main(sys.argv[1])
