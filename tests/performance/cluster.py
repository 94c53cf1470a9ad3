"""Trials as Pods of the cluster that BENCHJOBS_KUBECONFIG names: one trial more, a thousand that wait, and pulls.

`scripts/k8s.sh run python -m tests.performance cluster` has one of three nodes. All is made in a namespace of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pytest_benchjobs.sandbox.kubernetes.api import Cluster
from pytest_benchjobs.sandbox.kubernetes.fate import is_running
from pytest_benchjobs.sandbox.kubernetes.pod import CONTAINER, OWNER
from pytest_benchjobs.sandbox.kubernetes.stream import StreamEnded
from tests.kubernetes.lab import own_namespace
from tests.support import IMAGE, engine_client, results, until

from .engine import GRADE, SOLUTION, manifest, run, scorers, timed

FEW, MANY, ROUNDS, AT_ONCE = 15, 45, 3, 8
WAITING = 1000
IMAGES, ATTEMPTS = 6, 5
_LOG = Path(os.environ.get("BENCHJOBS_K8S", "/var/tmp/benchjobs-k8s")) / "log" / "registry.log"
_PULL = re.compile(r'^(\S+) .*"GET /v2/\S+/manifests/(sha256:\w+) HTTP/1.1" 200 ', re.MULTILINE)
_UNITS = ("Ki", "Mi", "Gi", "Ti")
_MEMORY = re.compile(f"([0-9]+)({'|'.join(_UNITS)})")


def measure() -> Iterator[tuple[str, float, str, str]]:
    """Rows of (what, ratio to the bare loop or the budget, budget, detail)."""
    kubeconfig = os.environ.get("BENCHJOBS_KUBECONFIG")
    if kubeconfig is None:
        print("skipped: BENCHJOBS_KUBECONFIG names no cluster", flush=True)
        return
    with tempfile.TemporaryDirectory() as name, own_namespace(Path(kubeconfig), Path(name)) as own:
        for part in (_slope, _waiting, _pulls):
            with contextlib.closing(Cluster(str(own))) as cluster:
                yield from part(Path(name), cluster, _options(own))


def _options(kubeconfig: Path) -> tuple[str, ...]:
    given = {"kubeconfig": kubeconfig, "unenforced_network": "true"}
    return "--bench-sandbox=kubernetes", *(
        f"--bench-sandbox-option={key}={one}" for key, one in given.items()
    )


def _slope(
    directory: Path, cluster: Cluster, options: tuple[str, ...]
) -> Iterator[tuple[str, float, str, str]]:
    """The seconds of one trial more, beside those of one Pod more that does the same."""
    about = {"problem_statement": "Write ok to out.txt.", "reference": SOLUTION, "scorers": scorers(GRADE)}
    for count in (FEW, MANY):
        rows = [{"id": f"s{number}", "grade_in": "agent_container", **about} for number in range(count)]
        manifest(directory / f"pods-{count}", rows)
    cluster.watch_pods("bare=yes")
    kinds = {
        "bare": lambda count, at_once: _bare_loop(cluster, count, at_once),
        "ours": lambda count, at_once: run(directory, f"pods-{count}", "oracle", at_once, *options),
    }
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for kind, do in kinds.items():
            found[kind].append((timed(do, MANY, AT_ONCE) - timed(do, FEW, AT_ONCE)) / (MANY - FEW))
    bare, ours = (statistics.median(found[kind]) for kind in kinds)
    all_of = "; ".join(f"{kind} {', '.join(f'{one:.3f}' for one in found[kind])}" for kind in kinds)
    yield f"a trial at {AT_ONCE}: native, in place", ours / bare, "<= 1.2 x", f"seconds: {all_of}"


def _bare_loop(cluster: Cluster, count: int, at_once: int) -> None:
    """The calls that a trial cannot do without, with nothing around them."""

    def execute(pod: str, script: str) -> bytes:
        printed = b""
        with (
            contextlib.closing(cluster.exec(pod, CONTAINER, ["bash", "-c", script])) as stream,
            contextlib.suppress(StreamEnded),
        ):
            while True:
                printed += (stream.receive(30) or (0, b""))[1]
        return printed

    def trial(_: int) -> None:
        name = f"bare-{secrets.token_hex(8)}"
        container = {"name": CONTAINER, "image": IMAGE, "command": ["sleep", "600"]}
        made = cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": {"bare": "yes"}},
                "spec": {
                    "automountServiceAccountToken": False,
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{**container, "imagePullPolicy": "IfNotPresent"}],
                },
            }
        )
        try:
            cluster.wait(
                made["metadata"]["uid"],
                lambda state: state is not None and is_running(state, CONTAINER),
                120,
            )
            execute(name, SOLUTION)
            assert execute(name, GRADE) == b"1\n"
        finally:
            cluster.delete("Pod", name)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(trial, range(count)))


def _waiting(
    directory: Path, cluster: Cluster, options: tuple[str, ...]
) -> Iterator[tuple[str, float, str, str]]:
    """The most memory of a session whose trials wait for room, but for one on each node."""
    room = [_kib(one["status"]["allocatable"]["memory"]) for one in cluster.list("Node")]
    row = {"id": "s", "problem_statement": "Wait.", "reference": "sleep 1200", "scorers": scorers(GRADE)}
    manifest(directory / "waiting", [{**row, "memory": f"{min(room) * 6 // 10}K"}])
    alone, most = (_most_of(directory, cluster, options, count, len(room)) for count in (1, WAITING))
    detail = f"{most:.0f} MB at most; {alone:.0f} MB of one trial that runs"
    yield f"a session of {WAITING} trials", most / 150, "<= 1 (150 MB)", detail


def _most_of(directory: Path, cluster: Cluster, options: tuple[str, ...], count: int, nodes: int) -> float:
    """Return the most memory in MB of a session, to its end, that was ended once so many trials ran or were pending."""
    at_once = (f"--bench-attempts={count}", f"--bench-concurrency={count}")
    argv = [sys.executable, "-m", "pytest", "waiting", "--bench-agent=oracle", *at_once, *options]
    printed = directory / "waiting.log"
    with printed.open("wb") as log:
        process = subprocess.Popen(
            [*argv, f"--bench-dir={directory}/of-waiting"], cwd=directory, stdout=log, stderr=log
        )
    most = 0

    def looked() -> bool:
        nonlocal most
        assert process.poll() is None, printed.read_text()
        most = max(most, _peak(process.pid))
        pods = Counter(one["status"].get("phase") for one in cluster.list("Pod", OWNER))
        return pods["Running"] >= min(count, nodes) and pods["Pending"] >= count - nodes

    try:
        until(looked, 900, what="not all Pods are there")
    finally:
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            most = max(most, _peak(process.pid))
            time.sleep(0.1)
    return most / 1024


def _kib(quantity: str) -> int:
    number, unit = _MEMORY.fullmatch(quantity).groups()  # type: ignore[union-attr]
    return int(number) << 10 * _UNITS.index(unit)


def _peak(pid: int) -> int:
    """The most memory that a process has had, in KiB; 0: it has ended."""
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0])
    return 0


def _pulls(
    directory: Path, cluster: Cluster, options: tuple[str, ...]
) -> Iterator[tuple[str, float, str, str]]:
    """Pulls of images that only this job has, of the registry's log, beside the nodes on which they ran."""
    if not _LOG.exists():
        print(f"pulls: skipped, as there is no {_LOG}", flush=True)
        return
    about = {"problem_statement": "Write ok to out.txt.", "reference": SOLUTION, "scorers": scorers(GRADE)}
    contexts = [f"image-{number}" for number in range(IMAGES)]
    rows = [{"id": one, "dockerfile": f"{one}/Dockerfile", "context": one, **about} for one in contexts]
    manifest(directory / "pulled", rows, image=None)
    for one in contexts:
        where = directory / "pulled" / one
        where.mkdir()
        (where / "Dockerfile").write_text(f"FROM {IMAGE}\nCOPY stamp /stamp\n")
        (where / "stamp").write_text(secrets.token_hex(16))
    registry = os.environ.get("BENCHJOBS_KUBE_REGISTRY", "127.0.0.1:5000")
    before = _LOG.stat().st_size
    needing = _Needing(cluster)
    try:
        with needing:
            job = (f"--bench-attempts={ATTEMPTS}", f"--bench-registry={registry}/benchjobs-performance")
            run(directory, "pulled", "oracle", AT_ONCE, *job, *options)
    finally:
        _remove_images(directory / "of-pulled")
    addresses = {address["address"] for one in cluster.list("Node") for address in one["status"]["addresses"]}
    with _LOG.open() as log:
        log.seek(before)
        pulls = Counter(digest for address, digest in _PULL.findall(log.read()) if address in addresses)
    nodes = {digest: len(names) for digest, names in needing.nodes.items()}
    worst = max(pulls[digest] / count for digest, count in nodes.items())
    detail = f"{sum(pulls[one] for one in nodes)} pulls of {len(nodes)} images by {sum(nodes.values())} nodes in all"
    yield f"pulls, {IMAGES} images x {ATTEMPTS} attempts", worst, "<= 1.2 x", detail


class _Needing:
    """Notes, while it is entered, on which nodes Pods of each image run, by digest."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes: dict[str, set[str]] = defaultdict(set)
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.2):
            for one in self._cluster.list("Pod", OWNER):
                if node := one["spec"].get("nodeName"):
                    self.nodes[one["spec"]["containers"][0]["image"].rpartition("@")[2]].add(node)


def _remove_images(directory: Path) -> None:
    with contextlib.closing(engine_client()) as engine:
        for image in {one["image"]["id"] for one in results(directory) if one["image"]}:
            engine.remove_image(image, force=True)
