"""A job of deterministic agents in Pods, harmed while it runs, and what has to be true of it whatever was done to it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_benchjobs.sandbox.kubernetes.api import Cluster
from pytest_benchjobs.sandbox.kubernetes.pod import OWNER
from tests.docker.chaos.trials import inconsistencies
from tests.support import IMAGE, PATIENCE, paths, results, start, until

AGENT = "command:sh task.sh"
_RIGHT = "echo right > out.txt; mkdir -p d; for one in a b c; do echo $one > d/$one; done\n"
# Of Perl a slim Debian has the modules for sockets, and none for HTTP.
_ASK = r"""
use IO::Socket::INET;
my ($where, $path) = $ENV{OPENAI_BASE_URL} =~ m{^http://([^/]+)(.*)$} or die "no gateway";
my $body = '{"model": "fake-model", "messages": [{"role": "user", "content": "hello"}]}';
for my $number (1 .. 3) {
    my $to = IO::Socket::INET->new(PeerAddr => $where, Timeout => 30) or die "no connection: $@";
    print $to "POST $path/chat/completions HTTP/1.0\r\nHost: $where\r\nContent-Type: application/json\r\n",
        "Content-Length: ", length $body, "\r\n\r\n", $body;
    my $answer = join "", <$to>;
    $answer =~ m{^HTTP/1.\d 200 } or die "refused: $answer";
    sleep 2;
}
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """One kind of agent. `ended` is the outcome, the score and the class of the failure it has to come to."""

    script: str
    ended: tuple[str, float | None, str | None] = ("passed", 1.0, None)
    keys: str = ""


_FAILS = ("failed", 0.0, "below_threshold")
SHAPES = {
    "passes": Shape(_RIGHT),
    "sleeps": Shape(f"sleep 8; {_RIGHT}"),
    "fails": Shape("sleep 2; echo wrong > out.txt\n", _FAILS),
    "prints": Shape(f"seq 1 300000; sleep 3; seq 1 100000; {_RIGHT}"),
    "partly": Shape("echo right > out.txt; sleep 4\n", ("failed", 0.25, "below_threshold")),
    "writes": Shape(f"for n in $(seq 1 500); do echo $n > made$n; done; test -e made500; {_RIGHT}", keys="artifacts: [d]"),
    "asks": Shape(f"perl ask.pl && {_RIGHT}"),
    "greedy": Shape("head -c 60000000 /dev/zero > big; sleep 90\n", ("failed", 0.0, "limit_exceeded"), "storage: 20M"),
    "sleeps long": Shape(f"sleep 20; {_RIGHT}"),
}  # fmt: skip
_MANIFEST = f"""\
benchmark: chaos
defaults:
  image: {IMAGE}
  workdir: /app
  network: none
  problem_statement: Write right to out.txt, and its own name to each of d/a, d/b, d/c.
  files: {{ask.pl: ask.pl}}
  setup: echo given > given.txt
  scorers:
    - name: bash
      type: bash
      script: |
        n=0; grep -qx right out.txt && n=25; for one in a b c; do grep -qx $one d/$one && n=$((n + 25)); done
        echo "score=$((n / 100)).$((n % 100))"
scenarios:
"""
Ended = tuple[str, float | None, str | None]


def write(
    directory: Path, shapes: Sequence[str], images: Mapping[int, str] | None = None
) -> dict[str, Ended]:
    """Write a benchmark of scenarios of these shapes; returns what each has to come to. Some have other images."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ask.pl").write_text(_ASK)
    lines, ended = [], {}
    for number, name in enumerate(shapes):
        shape, scenario = SHAPES[name], f"c{number:03}-{name.replace(' ', '-')}"
        script = f"{name.replace(' ', '-')}.sh"
        (directory / script).write_text(shape.script)
        keys = [f"files: {{task.sh: {script}, ask.pl: ask.pl}}", shape.keys]
        keys += [f"image: '{images[number]}'"] if images and number in images else []
        lines.append(f"  - {{id: {scenario}, {', '.join(filter(None, keys))}}}\n")
        ended[scenario] = shape.ended
    (directory / "chaos.bench.yaml").write_text(_MANIFEST + "".join(lines))
    return ended


class ChaosJob:
    """A job in a directory, which may be killed and goes on. It ends with `finish`."""

    def __init__(self, directory: Path, *args: str, **env: str) -> None:
        self.directory = directory
        self._args = (
            "chaos.bench.yaml", f"--bench-agent={AGENT}", "--bench-retry-errors=10",
            "--bench-secret=OPENAI_API_KEY=OPENAI_API_KEY", *args,
        )  # fmt: skip
        self._env = {"OPENAI_API_KEY": "of-a-scripted-endpoint", **env}
        self._paid: dict[str, str] = {}
        self._printed: list[str] = []
        self.troubles: list[str] = []
        self.kills = 0
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        again = ("--bench-resume", "last") if self.kills else ()
        self._process = start(self.directory, *self._args, *again, **self._env)
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            self._printed.extend(lines)

    @property
    def output(self) -> str:
        """All that it printed."""
        return "".join(self._printed)

    def goes_on(self) -> bool:
        """Whether it has not ended."""
        with self._lock:
            return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL it, and have it resumed."""
        with self._lock:
            if self._process.poll() is None:
                self._end()
                self.kills += 1
                self._begin()

    def finish(self, timeout: float) -> None:
        """Wait for its end."""
        try:
            until(lambda: not self.goes_on(), timeout)
        except AssertionError:
            self.troubles.append(f"it did not end within {timeout:g} s")
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        ended = [
            one for one in results(self.directory) if one["outcome"] in ("passed", "failed")
        ]  # errors run again
        now = {one["node_id"]: one["started_at"] for one in ended}
        if not now.items() >= self._paid.items():
            self.troubles.append(f"lost, or run again: {sorted(self._paid.items() - now.items())}")
        self._paid = now


def ends(directory: Path) -> dict[str, Ended]:
    """What each trial of the job below a directory came to."""
    return {
        one["scenario"]: (one["outcome"], one["score"], (one["failure"] or {}).get("class"))
        for one in results(directory)
    }


def troubles(job: ChaosJob, expected: Mapping[str, Ended], kubeconfig: Path) -> list[str]:
    """What is wrong with a job that has ended."""
    found = [*job.troubles, *inconsistencies(job.directory, job.output)]
    ended = ends(job.directory)
    for name in sorted({*expected, *ended}):
        if ended.get(name) != expected.get(name):
            message = next(
                (one["failure"] for one in results(job.directory) if one["scenario"] == name), None
            )
            found.append(f"{name}: {ended.get(name)} instead of {expected.get(name)}: {message}")
    if left := left_in(kubeconfig):
        found.append(f"left in the cluster: {left}")
    return found


def left_in(kubeconfig: Path) -> list[str]:
    """What of ours stays in the namespace, given time for a reaper."""

    def there() -> list[str]:
        kinds = ("Pod", "ConfigMap", "NetworkPolicy")
        return [f"{kind} {one['metadata']['name']}" for kind in kinds for one in cluster.list(kind, OWNER)]

    with contextlib.closing(Cluster(str(kubeconfig))) as cluster:
        with contextlib.suppress(AssertionError):
            until(lambda: not there(), PATIENCE)
        return there()


def told(directory: Path) -> list[str]:
    """A line for each try that was given up, and for each note."""
    lines = []
    for path in paths(directory, "reports/jobs/*/trials/*/*/*/try-*/failure.json"):
        why = json.loads(path.read_text())
        lines.append(f"{path.parts[-4]}, {path.parts[-2]}, {why['phase']}: {why['class']}: {why['message']}")
    usual = ("not enforced", "cost unknown")
    lines += [
        f"{one['scenario']}: {note}"
        for one in results(directory)
        for note in one["notes"]
        if not any(words in note for words in usual)
    ]
    return lines
