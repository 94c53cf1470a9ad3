"""Makes the pictures in docs/watching.md anew: a job of 50 trials in real containers, watched in terminals of tmux.

    scripts/capture.py

Needs tmux and a Docker Engine; takes about a minute. From run to run the id, the times, the order in which trials end
and thus who runs at that moment differ; the totals at the end do not.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "watching.md"
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
_BLOCK = r"(<!-- capture: {name} -->\n```text\n).*?(```\n)"
_PATIENCE = 300.0

TEXTS = ("ledger", "letter", "minutes", "poem", "recipe")
TASKS = {
    "count-lines": "wc -l < in.txt",
    "count-words": "wc -w < in.txt",
    "first-line": "head -n 1 in.txt",
    "longest-line": "awk 'length > n {n = length; l = $0} END {print l}' in.txt",
    "sort-lines": "sort in.txt",
}
AGENT = '''
from dataclasses import dataclass

from pytest_benchjobs import AgentCommand, File

SCRIPT = b"""
sleep $(( ($(od -An -N1 -tu1 /dev/urandom) % 4) + 1 ))
case $(cat "$BENCH_PROBLEM_FILE") in
    count*) wc "-$(cut -c 7 < "$BENCH_PROBLEM_FILE")" < in.txt > out.txt ;;
    sort*) sort in.txt > out.txt ;;
    *) cat in.txt > out.txt ;;
esac
"""


@dataclass(frozen=True)
class Guesser:
    name: str = "guesser"
    needs_model: bool = True
    trusted: bool = False

    def prepare(self, call):
        return AgentCommand(argv=("sh", "/bench/guess.sh"), files=(File("/bench/guess.sh", content=SCRIPT),))


def pytest_benchjobs_agents():
    return [Guesser()]
'''


def main() -> int:
    """Run the job, watch it, and put what was seen into the page."""
    if shutil.which("tmux") is None:
        print("capture: tmux is needed", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="benchjobs-capture-") as directory:
        captures = watch(Path(directory))
    page = PAGE.read_text("utf-8")
    for name, text in captures.items():
        block = re.compile(_BLOCK.format(name=re.escape(name)), re.DOTALL)
        page, count = block.subn(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
        if count != 1:
            print(f"capture: {PAGE} has no block for {name}", file=sys.stderr)
            return 1
    PAGE.write_text(page, "utf-8")
    print(f"capture: {len(captures)} blocks of {PAGE.relative_to(ROOT)} are new")
    return 0


def watch(directory: Path) -> dict[str, str]:
    """What the terminals showed, by name of the block."""
    sys.path.insert(0, str(ROOT))
    from tests.terminal import Terminal

    (directory / "conftest.py").write_text(AGENT, "utf-8")
    (directory / "text-tasks.bench.yaml").write_text(json.dumps(manifest()), "utf-8")
    (directory / "pytest.ini").write_text("[pytest]\n", "utf-8")
    for text in TEXTS:
        (directory / f"{text}.txt").write_text(f"a {text}\nthat has only\nthree lines\n", "utf-8")
    command = ["text-tasks.bench.yaml", "--bench-agent", "oracle", "--bench-agent", "guesser:small-1"]
    command += ["--bench-job-name", "text-tasks", "--bench-concurrency", "10"]
    captures = {}
    job = subprocess.Popen(
        [sys.executable, "-m", "pytest", *command, "-p", "no:cacheprovider"],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_for_job(directory, job)
        piped = subprocess.Popen(
            ["benchjobs", "watch", "--interval", "5"],
            env={**os.environ, "PATH": PATH},
            cwd=directory,
            stdout=subprocess.PIPE,
            text=True,
        )
        with (
            Terminal(directory, 80, 24, PATH=PATH) as narrow,
            Terminal(directory, 200, 50, PATH=PATH) as wide,
        ):
            for terminal in (narrow, wide):
                terminal.type("clear; benchjobs watch")
            narrow.until(lambda text: re.search(r"^(19|2\d)/50 trials", text, re.MULTILINE))
            captures["80 columns"], captures["200 columns"] = narrow.text(), wide.text()
            narrow.resize(60, 12)
            captures["resized to 60 columns and 12 rows"] = narrow.until(
                lambda text: len(text.splitlines()[0]) == 60 and "Running" in text
            )
            narrow.resize(80, 24)
            captures["at the end"] = narrow.until(lambda text: "summary -e" in text)
        lines = piped.communicate()[0].splitlines()
        captures["piped"] = "\n".join([*lines[:9], "...", *lines[lines.index("") - 2 :]])
    finally:
        output, _ = job.communicate()
    if job.returncode != 1:
        raise SystemExit(f"capture: pytest ended with status {job.returncode}:\n{output}")
    return {name: clean(text) for name, text in captures.items()}


def manifest() -> dict[str, object]:
    """25 scenarios; one has a scorer that does not work."""
    scenarios = []
    for number, (text, task) in enumerate((text, task) for text in TEXTS for task in TASKS):
        solve = TASKS[task]
        script = f"({solve}) | cmp -s - out.txt && echo score=1 || echo score=0"
        if (task, text) == ("sort-lines", "ledger"):
            script = "no-such-program"
        scenarios.append(
            {
                "id": f"{task}-of-{text}",
                "problem_statement": f"{task}: of in.txt, to out.txt",
                "files": {"in.txt": f"{text}.txt"},
                "reference": f"sleep {1 + number % 4}; ({solve}) > out.txt",
                "scorers": [{"name": "right", "type": "bash", "script": script}],
            }
        )
    defaults = {"image": "debian:bookworm-slim", "workdir": "/app", "network": "none"}
    return {"benchmark": "text-tasks", "version": "1.0", "defaults": defaults, "scenarios": scenarios}


def wait_for_job(directory: Path, job: subprocess.Popen[str]) -> None:
    """Until it has begun."""
    deadline = time.monotonic() + _PATIENCE
    while not list(directory.glob("reports/jobs/*/.flight/events/*.jsonl")):
        if job.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"capture: the job did not begin: {job.communicate()[0] if job.poll() else ''}")
        time.sleep(0.1)


def clean(text: str) -> str:
    """As a block of a page: without blanks at the ends of lines, or the prompt."""
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line != "$").strip("\n")


if __name__ == "__main__":
    sys.exit(main())
