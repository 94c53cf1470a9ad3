"""Nodes of a fake cluster: what kubelets do, with containers of the local Docker Engine."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import io
import json
import os
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import docker
import docker.errors
import docker.types

from .fake_store import KINDS, Object, Refused, content, field, now, quantity

if TYPE_CHECKING:
    from .fake_cluster import FakeCluster

LABEL = "fake-kubernetes"
"""Label of containers: the id of their cluster."""
POD = f"{LABEL}/pod"
PODS = KINDS["pods"]
FINAL = ("Succeeded", "Failed")
OVER_STORAGE = "Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
_DEADLINE = "Pod was active on the node longer than the specified deadline"
_LOOK = 1.0
"""Seconds between two looks at what a Pod has written."""
_KEPT = {
    "Evicted": ("startTime",),
    "DeadlineExceeded": ("startTime", "containerStatuses"),
}
"""What is left of a status when a kubelet ended a Pod."""
_REMOVED: Object = {
    "State": {
        "Status": "exited",
        "Running": False,
        "ExitCode": 137,
        "Error": "",
        "OOMKilled": False,
        "StartedAt": "0001",
        "FinishedAt": "0001",
    },
}


class Waiting(Exception):
    """A container cannot be started now: the reason and message of its status."""

    def __init__(self, reason: str, message: str = "", event: str = "") -> None:
        super().__init__(message)
        self.told = {"reason": reason, **({"message": message} if message else {})}
        self.event = event or f"Error: {message or reason}"


@dataclasses.dataclass
class Node:
    """A node. While it is not reachable, its kubelet neither hears nor says anything; its containers run on."""

    name: str
    reachable: threading.Event = dataclasses.field(default_factory=threading.Event)
    images: set[str] = dataclasses.field(default_factory=set)

    def __post_init__(self) -> None:
        self.reachable.set()


class Runner:
    """What a kubelet does for one Pod, in a thread of its own, from when it was scheduled until its object is gone."""

    def __init__(self, cluster: FakeCluster, node: Node, pod: Object) -> None:
        meta = pod["metadata"]
        self.cluster, self.node = cluster, node
        self.wake = threading.Event()
        self.eviction: str | None = None
        self.containers: dict[str, str] = {}
        """Name of a container -> id of the engine's."""
        self._image_ids: dict[str, str] = {}
        self.thread = threading.Thread(target=self._run, name=f"pod-{meta['name']}", daemon=True)
        self._uid, self._place = meta["uid"], (PODS, meta["namespace"], meta["name"])
        self._labels = meta.get("labels")
        self._files = cluster.directory / meta["uid"]
        self._engine = cluster.engine
        self._began = time.monotonic()
        self._started = False
        self._next = ""
        """The container that is being started."""
        self._network = ""
        self._kill_at: float | None = None
        self._failed_pulls = 0

    def hear(self, event: str, pod: Object) -> None:
        """Wake up for a change that is somebody else's."""
        labels, self._labels = self._labels, pod["metadata"].get("labels")
        if event == "DELETED" or pod["metadata"].get("deletionTimestamp") or labels != self._labels:
            self.wake.set()

    def _run(self) -> None:
        try:
            while (pod := self._pod()) is not None and not self.cluster.closing.is_set():
                pause = self._step(pod)
                self.wake.wait(pause)
                self.wake.clear()
                self.node.reachable.wait()
        finally:
            for container in self.containers.values():
                with contextlib.suppress(docker.errors.APIError):
                    self._engine.remove_container(container, v=True, force=True)

    def _pod(self) -> Object | None:
        """The object, unless it is gone."""
        with contextlib.suppress(Refused):
            pod = self.cluster.store.get(*self._place)
            return pod if pod["metadata"]["uid"] == self._uid else None
        return None

    def _step(self, pod: Object) -> float | None:
        """Bring what there is nearer to what is wanted; return after how many seconds to look again."""
        if pod["metadata"].get("deletionTimestamp"):
            return self._delete(pod["metadata"]["deletionGracePeriodSeconds"])
        if pod["status"]["phase"] in FINAL:
            return None
        left = self._began + pod["spec"].get("activeDeadlineSeconds", 1 << 31) - time.monotonic()
        self.eviction = self.eviction or self._over_storage(pod)
        if self.eviction is not None:
            return self._end("Evicted", self.eviction)
        if left <= 0:
            return self._end("DeadlineExceeded", _DEADLINE)
        try:
            if not self._started:
                self._start(pod)
            self._connect(pod)
            self._report(pod)
        except Waiting as waiting:
            self.event(
                "FailedMount" if "MountVolume" in waiting.event else "Failed", waiting.event, "Warning"
            )
            self._report(pod, waiting)
            return min(left, self.cluster.backoff)
        return min(left, _LOOK if _storage_limit(pod) else 3600.0)

    def _start(self, pod: Object) -> None:
        """Start containers, up to the first that has to end before others start."""
        spec = pod["spec"]
        self._write(startTime=pod["status"].get("startTime") or now(), hostIP="127.0.0.1")
        volumes = dict(self._volumes(spec))
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            name = container["name"]
            self._next = name
            if name not in self.containers:
                self._create(pod, container, volumes)
            if _is_step(spec, name):
                state = self._look()[name]["State"]
                if state["Status"] != "exited" or state["ExitCode"]:
                    return
        self._started = True

    def _create(self, pod: Object, container: Object, volumes: dict[str, Path]) -> None:
        name = container["name"]
        user = field(container, "securityContext.runAsUser")
        image = self._image(container["image"])
        try:
            made = self._engine.create_container(
                image["Id"],
                command=container.get("args"),
                entrypoint=container.get("command"),
                environment=dict(self._environment(container)),
                working_dir=container.get("workingDir"),
                user=None if user is None else f"{user}:0",
                hostname=None
                if self._first(pod["spec"])
                else pod["spec"].get("hostname") or self._place[2][:63],
                labels={**self.cluster.labels, POD: self._uid},
                host_config=self._host_config(pod, container, volumes),
            )["Id"]
        except docker.errors.APIError as error:
            raise Waiting(
                "CreateContainerError", f"Error response from daemon: {error.explanation}"
            ) from None
        self.containers[name] = made
        digest = next(iter(image["RepoDigests"]), None)
        self._image_ids[name] = f"docker-pullable://{digest}" if digest else f"docker://{image['Id']}"
        # One that does not start says so by its state.
        with contextlib.suppress(docker.errors.APIError):
            self._engine.start(made)
            self.event("Started", f"Started container {name}")

    def _first(self, spec: Object) -> str | None:
        """The container in whose namespaces others are: the first one that does not end before others start."""
        return next((made for name, made in self.containers.items() if not _is_step(spec, name)), None)

    def _host_config(self, pod: Object, container: Object, volumes: dict[str, Path]) -> Any:
        spec, security = pod["spec"], container.get("securityContext") or {}
        limits = field(container, "resources.limits") or {}
        memory = int(quantity(limits["memory"])) if "memory" in limits else None
        cpus = min(quantity(limits.get("cpu", 0)), os.cpu_count() or 1)
        first = self._first(spec)
        if first is None:
            self._network = self.cluster.network_of(pod)
        mounts = [
            docker.types.Mount(
                mount["mountPath"],
                str(volumes[mount["name"]] / mount.get("subPath", "")),
                type="bind",
                read_only=mount.get("readOnly", False) or not _is_empty(spec, mount["name"]),
            )
            for mount in container.get("volumeMounts") or ()
        ]
        return self._engine.create_host_config(
            network_mode=f"container:{first}" if first else self._network,
            mem_limit=memory,
            memswap_limit=memory,
            nano_cpus=int(cpus * 1e9) or None,
            cap_add=field(security, "capabilities.add"),
            cap_drop=field(security, "capabilities.drop"),
            security_opt=["no-new-privileges"] if security.get("allowPrivilegeEscalation") is False else None,
            mounts=mounts,
        )

    def _volumes(self, spec: Object) -> Iterator[tuple[str, Path]]:
        """Directories with the files of ConfigMaps, and empty ones, which everybody may write to."""
        for volume in spec.get("volumes") or ():
            directory = self._files / volume["name"]
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o777)
            if (source := volume.get("configMap")) is not None:
                try:
                    config_map = self.cluster.store.get(KINDS["configmaps"], self._place[1], source["name"])
                except Refused as refused:
                    event = f'MountVolume.SetUp failed for volume "{volume["name"]}" : {refused}'
                    raise Waiting("ContainerCreating", event=event) from None
                for name, data in content(config_map).items():
                    (directory / name).write_bytes(data)
                    (directory / name).chmod(source.get("defaultMode", 0o644))
            yield volume["name"], directory

    def _environment(self, container: Object) -> Iterator[tuple[str, str]]:
        host, port = self.cluster.service()
        yield from {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}.items()
        yield from ((variable["name"], variable["value"]) for variable in container.get("env") or ())

    def _image(self, name: str) -> Object:
        """The engine's record of an image; nothing is pulled."""
        quoted = json.dumps(name)
        present = name in self.node.images
        words = None if present else self.cluster.failing_pull(name)
        # An image that was made here has no digest but its id, which a registry that took it tells.
        for known in (name, name.rpartition("@")[2], _id_by_registry(name)) if words is None else ():
            with contextlib.suppress(docker.errors.ImageNotFound):
                found: Object = self._engine.inspect_image(known)
                if not present:
                    self.node.images.add(name)
                    self.cluster.pulls.append((self.node.name, name))
                return found
        self._failed_pulls += 1
        if self._failed_pulls % 2 == 0:
            raise Waiting("ImagePullBackOff", f"Back-off pulling image {quoted}", "Error: ImagePullBackOff")
        missing = (
            f"Error response from daemon: manifest for {name} not found: manifest unknown: manifest unknown"
        )
        words = f"rpc error: code = Unknown desc = {words or missing}"
        self.event("Failed", f"Failed to pull image {quoted}: {words}", "Warning")
        raise Waiting("ErrImagePull", words, "Error: ErrImagePull")

    def _connect(self, pod: Object) -> None:
        """Follow policies, and labels, that changed."""
        first, wanted = self._first(pod["spec"]), self.cluster.network_of(pod)
        if first is not None and wanted != self._network:
            self._engine.disconnect_container_from_network(first, self._network)
            self._engine.connect_container_to_network(first, wanted)
            self._network = wanted

    def _over_storage(self, pod: Object) -> str | None:
        """What to evict a Pod with that wrote more than it may."""
        limit = _storage_limit(pod)
        if limit is None or not self.containers:
            return None
        found = self._engine.containers(all=True, size=True, filters={"label": f"{POD}={self._uid}"})
        written = sum(container.get("SizeRw", 0) for container in found)
        return OVER_STORAGE.format(limit=limit) if written > quantity(limit) else None

    def _delete(self, grace: float) -> float | None:
        """End what is being deleted: SIGTERM, and SIGKILL when its grace is over."""
        if self._kill_at is None:
            self._signal("SIGTERM")
        self._kill_at = min(self._kill_at or 1e99, time.monotonic() + grace)
        left = self._kill_at - time.monotonic()
        if left > 0 and any(look["State"]["Running"] for look in self._look().values()):
            return left
        self._signal("SIGKILL")
        with contextlib.suppress(Refused):
            self.cluster.store.remove(*self._place, self._uid)
        return 0

    def _signal(self, name: str) -> None:
        for container in self.containers.values():
            with contextlib.suppress(docker.errors.APIError):
                self._engine.kill(container, name)

    def _end(self, reason: str, message: str) -> None:
        """Kill it: it failed, and why. Little is left of its status."""

        def change(pod: Object) -> None:
            if pod["metadata"]["uid"] != self._uid:
                return
            kept = {key: value for key, value in pod["status"].items() if key in _KEPT[reason]}
            for status in kept.get("containerStatuses", ()):
                status["ready"] = False
            pod["status"] = {"phase": "Failed", "message": message, "reason": reason, **kept}

        self.event(reason, message, "Warning" if reason == "Evicted" else "Normal")
        with contextlib.suppress(Refused):
            self.cluster.store.update(*self._place, change)
        self._signal("SIGKILL")

    def is_running(self, container: str) -> bool:
        """Whether a command could run in a container."""
        return bool(container in self.containers and self._look()[container]["State"]["Running"])

    def _look(self) -> dict[str, Object]:
        """What the engine says of each container; one that somebody removed was killed."""
        found = {}
        for name, container in self.containers.items():
            try:
                found[name] = self._engine.inspect_container(container)
            except docker.errors.NotFound:
                found[name] = _REMOVED
        return found

    def _report(self, pod: Object, waiting: Waiting | None = None) -> None:
        """Write down how it is; `waiting`: why the next container does not start."""
        spec, looks = pod["spec"], self._look()
        first = [one["name"] for one in spec.get("initContainers") or ()]
        others = Waiting("PodInitializing" if first else "ContainerCreating")
        found = {
            one["name"]: self._status(
                one, looks.get(one["name"]), waiting if waiting and one["name"] == self._next else others
            )
            for one in (*(spec.get("initContainers") or ()), *spec["containers"])
        }
        codes = {name: field(status, "state.terminated.exitCode") for name, status in found.items()}
        own = {name: code for name, code in codes.items() if name not in first}
        todo = [name for name in first if _is_step(spec, name) and codes[name] != 0]
        phase = "Running" if self._started else "Pending"
        if None not in own.values() or any(codes[name] for name in todo):
            phase = "Failed" if todo or any(own.values()) else "Succeeded"
            self._signal("SIGKILL")
        runs = self._started and set(own.values()) == {None}
        statuses = [found[name] for name in own]
        before = {"initContainerStatuses": [found[name] for name in first]} if first else {}
        self._write(phase=phase, containerStatuses=statuses, ready=runs, **before)

    def _status(self, container: Object, look: Object | None, waiting: Waiting) -> Object:
        name, state = container["name"], look["State"] if look else None
        ident = {"containerID": f"docker://{self.containers[name]}"} if look else {}
        if state is None or (state["Status"] == "created" and not state["Error"]):
            told: Object = {"waiting": waiting.told}
        elif state["Running"]:
            told = {"running": {"startedAt": _time(state["StartedAt"])}}
        else:
            reason = "ContainerCannotRun" if state["Error"] else "Error" if state["ExitCode"] else "Completed"
            told = {
                "terminated": {
                    "exitCode": state["ExitCode"],
                    "reason": "OOMKilled" if state["OOMKilled"] else reason,
                    **({"message": state["Error"]} if state["Error"] else {}),
                    "startedAt": _time(state["StartedAt"]),
                    "finishedAt": _time(state["FinishedAt"]),
                    **ident,
                }
            }
        runs, image = "running" in told, self._image_ids.get(name, "")
        known = {"name": name, "image": container["image"], "imageID": image, **ident}
        return {**known, "state": told, "ready": runs}

    def _write(self, *, ready: bool | None = None, **changes: Any) -> None:
        """Write the status, when the node is reachable."""
        self.node.reachable.wait()

        def change(pod: Object) -> None:
            if pod["metadata"]["uid"] != self._uid or pod["status"]["phase"] in FINAL:
                return
            pod["status"] |= changes
            if ready is not None:
                set_condition(pod, "Ready", ready, "" if ready else "ContainersNotReady")

        with contextlib.suppress(Refused):
            self.cluster.store.update(*self._place, change)

    def event(self, reason: str, message: str, kind: str = "Normal") -> None:
        """Tell of something that happened."""
        if (pod := self._pod()) is not None:
            self.cluster.event(pod, reason, message, kind, by_kubelet=True)


def _storage_limit(pod: Object) -> str | None:
    """The limit of the first container; kubelets add them up."""
    limits = field(pod["spec"]["containers"][0], "resources.limits") or {}
    return limits.get("ephemeral-storage")


def _is_step(spec: Object, name: str) -> bool:
    """Whether a container has to end before others start: sidecars run on."""
    first = (one for one in spec.get("initContainers") or () if one.get("restartPolicy") != "Always")
    return name in [one["name"] for one in first]


def _is_empty(spec: Object, volume: str) -> bool:
    return any(each["name"] == volume and "emptyDir" in each for each in spec["volumes"])


def _time(stamp: str) -> str:
    return now() if stamp.startswith("0001") else stamp[:19] + "Z"


def set_condition(obj: Object, kind: str, value: bool | str, reason: str = "", message: str = "") -> None:
    """Set one of the conditions of an object's status; its time changes when its value does."""
    conditions = obj["status"].setdefault("conditions", [])
    told = {"type": kind, "status": str(value), "reason": reason, "message": message}
    told = {key: text for key, text in told.items() if text}
    old = next((condition for condition in conditions if condition["type"] == kind), None)
    told["lastTransitionTime"] = old["lastTransitionTime"] if old and old["status"] == str(value) else now()
    obj["status"]["conditions"] = [*(each for each in conditions if each is not old), told]


class Command:
    """A command in a container: its streams, and how it ended."""

    def __init__(self, engine: docker.APIClient, container: str, argv: list[str], *, stdin: bool) -> None:
        self._engine = engine
        self._id = engine.exec_create(container, argv, stdin=stdin)["Id"]
        self._connection, self._output = _hijack(engine, f"/exec/{self._id}/start", {"Detach": False})

    def output(self) -> Iterator[tuple[int, bytes]]:
        """Pieces of output: 1 is stdout, 2 stderr."""
        with contextlib.suppress(OSError, ValueError):
            while len(head := self._output.read(8)) == 8:
                yield head[0], self._output.read(int.from_bytes(head[4:], "big"))

    def exit_status(self) -> int:
        while (state := self._engine.exec_inspect(self._id))["Running"]:
            time.sleep(0.02)
        code: int = state["ExitCode"]
        return code

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._connection.sendall(data)

    def end_input(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._output.close()
        self._connection.close()


def _hijack(engine: docker.APIClient, path: str, body: Object) -> tuple[socket.socket, io.BufferedReader]:
    """A connection to the engine that has become the streams of a command."""
    address = urlsplit(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")
    if address.scheme == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address.path)
    else:
        connection = socket.create_connection((address.hostname, address.port))
    payload = json.dumps(body).encode()
    head = f"POST /v{engine.api_version}{path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
    with contextlib.ExitStack() as undo:
        undo.callback(connection.close)
        connection.sendall(
            f"{head}Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n".encode()
            + payload
        )
        stream = undo.enter_context(connection.makefile("rb"))
        status = stream.readline().split()
        http.client.parse_headers(stream)
        if status[1:2] not in ([b"101"], [b"200"]):
            raise Refused(500, "", stream.read1(4096).decode(errors="replace"))
        undo.pop_all()
    return connection, stream


def _id_by_registry(name: str) -> str:
    """Return the id of an image that a registry of this machine has by digest; the name, where none has it."""
    repository, _, digest = name.partition("@")
    host, _, path = repository.partition("/")
    if host.startswith("127.0.0.1:") and digest:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://{host}/v2/{path}/manifests/{digest}", timeout=10) as answer,
        ):
            return str(json.load(answer)["config"]["digest"])
    return name
