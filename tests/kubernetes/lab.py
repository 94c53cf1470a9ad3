"""The real cluster of `scripts/k8s.sh`: a namespace of one's own, and faults that a seed draws."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

from pytest_benchjobs.model.errors import EngineRefused
from pytest_benchjobs.sandbox.kubernetes.api import Cluster
from tests.support import until

from .chaos import ChaosJob

_SCRIPT = Path(__file__).parents[2] / "scripts" / "k8s.sh"
NODES = ("node1", "node2", "node3")
KINDS = ("node cut off", "API server restarted", "node pressure", "pulls fail", "controller killed")


@contextlib.contextmanager
def own_namespace(kubeconfig: Path, directory: Path) -> Iterator[Path]:
    """Make a namespace, which goes with all that is in it; gives the path, in a directory, of a kubeconfig for it."""
    name = f"benchjobs-{secrets.token_hex(4)}"
    config = yaml.safe_load(kubeconfig.read_text("utf-8"))
    for one in config["contexts"]:
        one["context"]["namespace"] = name
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    with contextlib.closing(Cluster(str(kubeconfig), namespace=name)) as cluster:
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        try:
            until(lambda: _takes_pods(cluster), what="the namespace takes no Pods")
            yield path
        finally:
            cluster.delete("Namespace", name)


def _takes_pods(cluster: Cluster) -> bool:
    """Return True once a new namespace has the account that Pods have."""
    container = {"name": "none", "image": "none", "command": ["none"]}
    try:
        cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "none"},
                "spec": {"containers": [container]},
            }
        )
    except EngineRefused:
        return False
    cluster.delete("Pod", "none")
    return True


def _lab(*args: str) -> None:
    subprocess.run([str(_SCRIPT), *args], check=False, capture_output=True, timeout=180)


class LabFaults(threading.Thread):
    """Harms a job until it has ended: about every `every` seconds, each kind once before one comes again."""

    def __init__(self, job: ChaosJob, seed: int, every: float = 30.0) -> None:
        super().__init__(daemon=True)
        self._job = job
        self._draw = random.Random(seed)
        self._every = every
        self.done: Counter[str] = Counter()
        self.log: list[str] = []

    def run(self) -> None:
        """Harm it."""
        kinds: list[str] = []
        while self._rests(self._every * self._draw.uniform(0.5, 1.0)):
            kinds = kinds or self._draw.sample(KINDS, len(KINDS))
            kind, node = kinds.pop(), self._draw.choice(NODES)
            lasts = self._draw.choice((8, 20, 55)) if kind == "node cut off" else self._draw.uniform(1, 20)
            self.log.append(f"{time.strftime('%T', time.gmtime())} {kind}, {node}, {lasts:.0f} s")
            self._say(self.log[-1])
            self.done[kind] += 1
            try:
                self._harm(kind, node, lasts)
            finally:
                self._say("over")

    def _harm(self, kind: str, node: str, lasts: float) -> None:
        match kind:
            case "controller killed":
                self._job.kill()
            case "API server restarted":
                _lab("restart-api", f"{lasts / 4:.0f}")
            case _:
                _lab({"node cut off": "cut", "node pressure": "squeeze", "pulls fail": "bar"}[kind], node)
                self._rests(lasts + (20 if kind == "node pressure" else 0))
                _lab("mend", node)

    def _rests(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self._job.goes_on() and time.monotonic() < end:
            time.sleep(0.2)
        return self._job.goes_on()

    def _say(self, what: str) -> None:
        """Warn others on the same cluster, where a file for that is named."""
        if path := os.environ.get("BENCHJOBS_K8S_FAULTS"):
            with Path(path).open("a") as file:
                file.write(f"{time.strftime('%T', time.gmtime())} chaos: {what}\n")
