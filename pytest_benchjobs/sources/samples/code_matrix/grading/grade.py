"""Grades a repository: `grade.py TASK` in its directory, beside `bench-run`. Status 0: resolved.

Every case of TASK.json is a piece of code that uses the repository, and what `result` has to be after it. The code of
the repository runs where the agent worked, in which neither this file nor what is expected is. So it cannot end the
grading, and it cannot look up what to answer.
"""

import json
import subprocess
import sys
from pathlib import Path

PATIENCE = 10
UNABLE = 126
NOT_RUN = 125
RUN = """
import json, sys
sys.path.insert(0, ".")
names = {}
try:
    exec(compile(sys.stdin.read(), "case", "exec"), names)
    found = {"result": names.get("result")}
except Exception as error:
    found = {"raises": type(error).__name__}
sys.stdout.flush()
print("\\n" + json.dumps(found))
"""


def main():
    """Run every case, print what became of it, and end with 0 if all is as it should be."""
    here = Path(__file__).parent
    cases = json.loads((here / f"{sys.argv[1]}.json").read_text("utf-8"))
    wrong = 0
    for case in cases:
        found = outcome(case["code"])
        expected = {key: case[key] for key in ("result", "raises") if key in case}
        is_right = same(found, expected)
        wrong += not is_right
        print(f"{'ok ' if is_right else 'NOT'}  {case['name']}")
    print(f"{len(cases) - wrong} of {len(cases)} cases")
    sys.exit(1 if wrong else 0)


def outcome(code):
    """What a case comes to; None if it came to nothing."""
    python = ("python3", "-I", "-B", "-c", RUN)
    done = subprocess.run(
        ["bench-run", "--stdin", "-", "--timeout", str(PATIENCE), "--", *python],
        input=code,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == NOT_RUN:
        print(f"the repository cannot be run: {done.stderr}")
        sys.exit(UNABLE)
    lines = done.stdout.strip().splitlines()
    try:
        return json.loads(lines[-1]) if lines else None
    except (ValueError, RecursionError):
        return None


def same(found, expected):
    """True if both are the same JSON: 1 is not true, and 1 is 1.0."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in found)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return isinstance(found, bool) is isinstance(expected, bool) and found == expected


if __name__ == "__main__":
    main()
