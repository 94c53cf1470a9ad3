"""Makes the pictures in docs/watching.md and README.md anew, from jobs in real containers, seen in terminals of tmux.

    scripts/capture.py [DOCS]

DOCS, by default docs/, has `watching.md`, and gets `images/watch.svg` and `images/gate.svg`: a job of 50 trials that is
watched, and an agent that does not count words any more, beside its baseline. Needs tmux and a Docker Engine; takes two
minutes. From run to run ids, times, the order in which trials end and thus who runs at that moment differ; totals and
the verdict do not.
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

from pictures import picture

ROOT = Path(__file__).resolve().parent.parent
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
_BLOCK = r"(<!-- capture: {name} -->\n```text\n).*?(```\n)"
_PATIENCE = 300.0
GATE_COLUMNS = 140

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
from pathlib import Path

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


@dataclass(frozen=True)
class Bot:
    name: str = "bot"
    needs_model: bool = False
    trusted: bool = False

    def prepare(self, call):
        script = Path(__file__).with_name("bot.sh").read_bytes()
        return AgentCommand(argv=("sh", "/bench/bot.sh"), files=(File("/bench/bot.sh", content=script),))


def pytest_benchjobs_agents():
    return [Guesser(), Bot()]
'''
# On the main branch the bot solves all; on another it counts lines for words.
BOT = 'case $(cut -d : -f 1 < "$BENCH_PROBLEM_FILE") in\n{}\nesac\n'


def main(docs: Path) -> int:
    """Run the jobs, look at them, and put what was seen into the page and the pictures."""
    if shutil.which("tmux") is None:
        print("capture: tmux is needed", file=sys.stderr)
        return 1
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory(prefix="benchjobs-capture-") as directory:
        prepare(Path(directory))
        captures, watched = watch(Path(directory))
        judged = gate(Path(directory))
    path = docs / "watching.md"
    page = path.read_text("utf-8")
    for name, text in captures.items():
        block = re.compile(_BLOCK.format(name=re.escape(name)), re.DOTALL)
        page, count = block.subn(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
        if count != 1:
            print(f"capture: {path} has no block for {name}", file=sys.stderr)
            return 1
    images = {
        "watch": picture("watch", "benchjobs watch", clean(watched), 80),
        "gate": picture("gate", "benchjobs gate", clean(judged), GATE_COLUMNS),
    }
    if any(directory in text for text in (page, *images.values())):
        print("capture: a picture shows a path of this machine", file=sys.stderr)
        return 1
    path.write_text(page, "utf-8")
    for name, drawn in images.items():
        (docs / "images" / f"{name}.svg").write_text(drawn, "utf-8")
    print(f"capture: {len(captures)} blocks of {path.name} and {len(images)} images are new")
    return 0


def prepare(directory: Path) -> None:
    """Write a project with an agent, texts and no benchmark."""
    (directory / "conftest.py").write_text(AGENT, "utf-8")
    (directory / "pytest.ini").write_text("[pytest]\n", "utf-8")
    for text in TEXTS:
        (directory / f"{text}.txt").write_text(f"a {text}\nthat has only\nthree lines\n", "utf-8")


def watch(directory: Path) -> tuple[dict[str, str], str]:
    """Return what the terminals showed, by name of the block, and what the narrow one showed with its colours."""
    from tests.terminal import Terminal

    (directory / "text-tasks.bench.yaml").write_text(
        json.dumps(manifest(broken="sort-lines-of-ledger")), "utf-8"
    )
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
            watched = narrow.styled()
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
    return {name: clean(text) for name, text in captures.items()}, watched


def gate(directory: Path) -> str:
    """Return what a terminal showed of the gate on an agent that became worse."""
    from tests.terminal import Terminal

    (directory / "text-tasks.bench.yaml").write_text(json.dumps(manifest()), "utf-8")
    bot = directory / "bot.sh"
    cases = [f"{task}) {solve} > out.txt ;;" for task, solve in TASKS.items()]
    bot.write_text(BOT.format("\n".join(cases)), "utf-8")
    run = ["benchjobs", "run", "--benchmarks", "text-tasks.bench.yaml", "--agent", "bot", "--force"]
    call(directory, *run, "-n", "main")
    call(directory, "benchjobs", "baseline", "set", "main", "--name", "main", "--reason", "the first")
    bot.write_text(BOT.format("\n".join(cases).replace("wc -w", "wc -l")), "utf-8")
    call(directory, *run, "-n", "branch", status=1)
    with Terminal(directory, GATE_COLUMNS, 40, PATH=PATH) as terminal:
        terminal.type(
            "clear; benchjobs gate branch --baseline main --fail-on-regression mean:5pp; echo exit status $?"
        )
        terminal.until(lambda text: re.search(r"^exit status 10$", text, re.MULTILINE))
        return "$ benchjobs gate branch --baseline main --fail-on-regression mean:5pp\n" + terminal.styled()


def call(directory: Path, *command: str, status: int = 0) -> None:
    """Run a command that must end with a status."""
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PATH": PATH, "GITHUB_ACTOR": "ada"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != status:
        raise SystemExit(f"capture: {' '.join(command)} ended with status {done.returncode}:\n{done.stdout}")


def manifest(broken: str = "") -> dict[str, object]:
    """Make 25 scenarios; the one that is named has a scorer which does not work."""
    scenarios = []
    for number, (text, task) in enumerate((text, task) for text in TEXTS for task in TASKS):
        solve = TASKS[task]
        script = f"({solve}) | cmp -s - out.txt && echo score=1 || echo score=0"
        if f"{task}-of-{text}" == broken:
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
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs"))
