"""Program that matches regular expressions for `patterns`. It imports nothing of ours, so it starts at once."""

import json
import re
import signal
import sys


def main() -> None:
    """Answer requests, a line of JSON each, until there are no more."""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        # Ends this process where nobody is left who would. Python's handler would have to wait for the pattern.
        signal.alarm(request["seconds"])
        try:
            pattern = re.compile(request["pattern"], request["flags"])
            found: object = (
                pattern.search(request["text"]) is not None
                if request["replacement"] is None
                else pattern.sub(request["replacement"], request["text"])
            )
            answer = {"found": found}
        except Exception as error:
            answer = {"error": type(error).__name__}
        signal.alarm(0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
