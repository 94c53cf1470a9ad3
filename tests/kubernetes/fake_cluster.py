"""A small fake of a Kubernetes cluster, whose Pods are containers of the local Docker Engine.

For tests of what needs a cluster, where there is none. It answers what our provider and `kubectl` ask, with the fields,
codes and words of a real one (recorded from 1.20), and does harm when told. It does no more than they need.

    fake_store.py   objects, versions, selectors       fake_rules.py   what is refused
    fake_http.py    the API server                     fake_node.py    kubelets

By itself, for a look: `python -m tests.kubernetes.fake_cluster` prints the path of a kubeconfig; Ctrl-C removes all.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import itertools
import json
import platform
import signal
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import docker
import docker.errors

from pytest_benchjobs.model.job import Owner
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.labels import abandoned

from .fake_http import USER, Server
from .fake_node import FINAL, LABEL, OVER_STORAGE, POD, PODS, Command, Node, Runner, set_condition
from .fake_rules import admit, check, requested
from .fake_store import (
    KINDS,
    Kind,
    Object,
    Refused,
    Store,
    conflict,
    details_of,
    field,
    merge,
    not_found,
    now,
    quantity,
    selects,
)

__all__ = ["NODE_PRESSURE", "OVER_EMPTY_DIR", "OVER_STORAGE", "FakeCluster"]

OVER_EMPTY_DIR = 'Usage of EmptyDir volume "{volume}" exceeds the limit "{limit}". '
NODE_PRESSURE = "The node was low on resource: {resource}. "
"""What a Pod is evicted with through no doing of its own."""
UNREACHABLE = "node.kubernetes.io/unreachable"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_ROOM = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_READY = (True, "KubeletReady", "kubelet is posting ready status")
_DEFAULTS: Object = {"terminationGracePeriodSeconds": 30, "tolerations": []}
_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_RECREATED = (
    "the UID in the precondition ({}) does not match the UID in record ({}). "
    "The object might have been deleted and then recreated"
)


class FakeCluster:
    """The cluster: `kubeconfig` leads to it. Close it, and nothing of it is left on the engine.

    Args:
        nodes: How many; `node1` is the first.
        enforce_network: A Pod that policies let nothing out of has no network.
        protocols: Of exec, the best first. 1.20 has v4 only, which cannot end a command's input.
    """

    def __init__(
        self,
        *,
        nodes: int = 3,
        enforce_network: bool = False,
        protocols: tuple[str, ...] = ("v5.channel.k8s.io", "v4.channel.k8s.io"),
    ) -> None:
        self.id = uuid.uuid4().hex
        self.engine = docker.APIClient(version="auto", timeout=120, **docker.utils.kwargs_from_env())
        me = current_owner()
        self.labels = {LABEL: self.id, f"{LABEL}.owner": str(me), f"{LABEL}.host": me.host}
        """Of its containers."""
        self._sweep(me)
        self.store = Store()
        self.closing = threading.Event()
        self.enforce_network = enforce_network
        self.protocols = protocols
        self.forbidden: set[tuple[str, str]] = set()
        """(verb, plural) that the user has no right to; `*` stands for any."""
        self.backoff = 1.0
        """Seconds until a kubelet tries again what did not work."""
        self.pulls: list[tuple[str, str]] = []
        """(node, image) of every image that a node had to get."""
        self.requests: list[tuple[str, str]] = []
        """(verb, plural) of every request."""
        self._temporary = tempfile.TemporaryDirectory(prefix="fake-kubernetes-", ignore_cleanup_errors=True)
        self.directory = Path(self._temporary.name)
        self.kubeconfig = self.directory / "kubeconfig"
        self._nodes = {f"node{number}": Node(f"node{number}") for number in range(1, nodes + 1)}
        self._runners: dict[str, Runner] = {}
        self._failing: dict[str, tuple[int, str]] = {}
        self._scripted: list[tuple[int, str | None]] = []
        self._lost_since: dict[str, float] = {}
        self._fill()
        self._server = Server(0, self)
        # What Pods with a network can reach.
        self._service = socket.create_server(("0.0.0.0", 0))
        self._write_kubeconfig()
        self._ends = self.engine.events(
            filters={"label": f"{LABEL}={self.id}", "event": ["die"]}, decode=True
        )
        threading.Thread(target=self._follow_ends, daemon=True).start()
        self._controller = threading.Thread(target=self._control, name="controller", daemon=True)
        self._controller.start()

    def _sweep(self, me: Owner) -> None:
        """Remove containers of clusters whose processes are gone, killed before they could."""
        for one in self.engine.containers(all=True, filters={"label": LABEL}):
            if abandoned(one["Labels"], me, time.time(), f"{LABEL}."):
                with contextlib.suppress(docker.errors.APIError):
                    self.engine.remove_container(one["Id"], v=True, force=True)

    def service(self) -> tuple[str, int]:
        """Where a Pod finds the API, as its variables say it: something answers there, if the Pod has a network."""
        bridge = self.engine.inspect_network("bridge")["IPAM"]["Config"][0]
        address = bridge.get("Gateway") or ipaddress.ip_network(bridge["Subnet"])[1]
        return str(address), int(self._service.getsockname()[1])

    def __enter__(self) -> FakeCluster:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self) -> None:
        self.store.create(
            KINDS["namespaces"], "", {"metadata": {"name": "default"}, "status": {"phase": "Active"}}
        )
        architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
        for name in self._nodes:
            labels = {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": architecture,
                "kubernetes.io/os": "linux",
            }
            status = {"capacity": _ROOM, "allocatable": _ROOM, "nodeInfo": {"architecture": architecture}}
            node = {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}
            set_condition(node, "Ready", *_READY)
            self.store.create(KINDS["nodes"], "", node)

    def _write_kubeconfig(self) -> None:
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        parts = {
            "clusters": [{"name": "fake", "cluster": {"server": url}}],
            "users": [{"name": USER, "user": {"token": "fake"}}],
            "contexts": [
                {"name": "fake", "context": {"cluster": "fake", "user": USER, "namespace": "default"}}
            ],
        }
        self.kubeconfig.write_text(
            json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "fake", **parts})
        )

    def close(self) -> None:
        """End everything, and remove every container that it made."""
        self.closing.set()
        for node in self._nodes.values():
            node.reachable.set()
        self._server.end()
        self._service.close()
        self._controller.join()
        for runner in self._runners.values():
            runner.wake.set()
        for runner in self._runners.values():
            runner.thread.join()
        self._ends.close()
        self.engine.close()
        self._temporary.cleanup()

    # Harm.

    def cut_streams(self) -> int:
        """Break every watch and every command's connection, as a proxy between does that ends; returns how many."""
        return self._server.cut(streams=True)

    def restart(self, seconds_down: float) -> None:
        """End the API server now; it is back after so many seconds, with all objects. Commands run on."""
        port = self._server.server_address[1]
        self._server.end()

        def begin() -> None:
            if not self.closing.wait(seconds_down):
                self._server = Server(port, self)

        threading.Thread(target=begin, daemon=True).start()

    def lose_node(self, name: str, notice: float = 1.0) -> None:
        """Cut a node off: its streams hang, its containers run on. `notice`: seconds until it is found NotReady.

        Then its Pods are deleted, each after the seconds that it tolerates.
        """
        self._nodes[name].reachable.clear()
        self._lost_since[name] = time.monotonic() + notice

    def mend_node(self, name: str) -> None:
        """Connect it again. Its kubelet ends the Pods that were deleted meanwhile."""
        self._lost_since.pop(name, None)

        def change(node: Object) -> None:
            node["spec"].pop("taints", None)
            set_condition(node, "Ready", *_READY)

        self.store.update(KINDS["nodes"], "", name, change)
        self._nodes[name].reachable.set()

    def evict(self, pod: str, message: str, namespace: str = "default") -> None:
        """Have a Pod's kubelet evict it; `OVER_STORAGE` and `OVER_EMPTY_DIR` are its own doing, `NODE_PRESSURE` is not."""
        runner = self._runners[self.store.get(PODS, namespace, pod)["metadata"]["uid"]]
        runner.eviction = message
        runner.wake.set()

    def fail_pulls(self, image: str, times: int, words: str) -> None:
        """Let the next pulls of an image fail with words of a registry, such as `toomanyrequests: ...`."""
        self._failing[image] = (times, words)

    def failing_pull(self, image: str) -> str | None:
        """The words with which the pull fails that is made now."""
        times, words = self._failing.get(image, (0, ""))
        self._failing[image] = (times - 1, words)
        return words if times > 0 else None

    def throttle(self, n: int) -> None:
        """Answer the next n requests with 429, and that the client shall come again after a second."""
        self.fail(n, 429, "Too many requests, please try again later.")

    def fail(self, n: int, code: int, words: str) -> None:
        """Answer the next n requests with an error of a server, or of a proxy before it."""
        self._scripted += [(code, words)] * n

    def lose_answers(self, n: int) -> None:
        """Do what the next n requests want, and break the connection instead of answering."""
        self._scripted += [(0, None)] * n

    def scripted(self) -> tuple[int, str | None]:
        """What becomes of the request that is made now: the code of an error, or 0."""
        return self._scripted.pop(0) if self._scripted else (0, "")

    # What controllers do.

    def _follow_ends(self) -> None:
        with contextlib.suppress(Exception):
            for event in self._ends:
                if runner := self._runners.get(event["Actor"]["Attributes"][POD]):
                    runner.wake.set()

    def _control(self) -> None:
        """Follow what changes: schedule Pods, wake their kubelets, collect what lost its owner, taint lost nodes."""
        seen = 0
        while not self.closing.is_set():
            with self.store.changed:
                if self.store.version == seen:
                    self.store.changed.wait(0.1)
                changes, seen = self.store.since(seen), self.store.version
            changes = [change for change in changes if change[2].name != "Event"]
            for _, event, kind, obj in changes:
                if kind is PODS and (runner := self._runners.get(obj["metadata"]["uid"])):
                    runner.hear(event, obj)
                if kind.name == "NetworkPolicy":
                    for runner in self._runners.values():
                        runner.wake.set()
            if any(event != "MODIFIED" for _, event, _, _ in changes):
                self._collect()
            if changes:
                self._schedule()
            self._taint()

    def _collect(self) -> None:
        """Delete what has owners none of which is there."""
        for kind, obj in self.store.orphans():
            with contextlib.suppress(Refused):
                self.delete(kind, obj, {})

    def _schedule(self) -> None:
        pods, nodes = self.store.list(PODS), self.store.list(KINDS["nodes"])
        taken = [pod for pod in pods if pod["status"]["phase"] not in FINAL]
        refused: dict[str, str] = {}
        for pod in pods:
            spec = pod["spec"]
            if spec.get("nodeName") or pod["metadata"].get("deletionTimestamp"):
                continue
            alike = json.dumps(
                [spec.get("nodeSelector"), *(one.get("resources") for one in spec["containers"])]
            )
            name, why = (None, refused[alike]) if alike in refused else self._place(pod, taken, nodes)
            if name is None:
                refused[alike] = why
            with contextlib.suppress(Refused):
                self._bind(pod, name, why)

    def _bind(self, pod: Object, name: str | None, why: str) -> None:
        namespace, called = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if why and why in [one.get("message") for one in pod["status"].get("conditions", ())]:
            return

        def change(pod: Object) -> None:
            if name:
                pod["spec"]["nodeName"] = name
            set_condition(pod, "PodScheduled", bool(name), "" if name else "Unschedulable", why)

        pod |= self.store.update(PODS, namespace, called, change)
        if name is not None:
            self.event(pod, "Scheduled", f"Successfully assigned {namespace}/{called} to {name}")
            runner = Runner(self, self._nodes[name], pod)
            self._runners = {**self._runners, pod["metadata"]["uid"]: runner}
            runner.thread.start()
        else:
            self.event(pod, "FailedScheduling", why, "Warning")

    def _place(self, pod: Object, pods: list[Object], nodes: list[Object]) -> tuple[str | None, str]:
        """The node with the fewest Pods of those that a Pod prefers and that take it, or why none does."""
        fitting, reasons = [], []
        for node in nodes:
            name, labels = node["metadata"]["name"], node["metadata"]["labels"]
            there = [other for other in pods if other["spec"].get("nodeName") == name]
            room = node["status"]["allocatable"]
            asked = {*room, *(field(pod["spec"]["containers"][0], "resources.requests") or ())}
            short = [
                what for what in sorted(asked) if requested([*there, pod], what) > quantity(room.get(what, 0))
            ]
            if node["spec"].get("taints"):
                reasons.append(f"node(s) had taint {{{UNREACHABLE}: }}, that the pod didn't tolerate")
            elif not selects({"matchLabels": pod["spec"].get("nodeSelector")}, labels):
                reasons.append("node(s) didn't match Pod's node affinity")
            elif short:
                reasons += ["Too many pods" if what == "pods" else f"Insufficient {what}" for what in short]
            else:
                wishes = (
                    field(pod, "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution")
                    or ()
                )
                named = {**labels, "metadata.name": name}
                liked = sum(wish["weight"] for wish in wishes if selects(wish["preference"], named))
                fitting.append((-liked, len(there), name))
        if fitting:
            return min(fitting)[2], ""
        counted = ", ".join(f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons)))
        return None, f"0/{len(self._nodes)} nodes are available: {counted}."

    def _taint(self) -> None:
        """Find lost nodes, and delete the Pods that do not tolerate that any longer."""
        for name, since in list(self._lost_since.items()):
            lost = time.monotonic() - since
            if lost < 0:
                continue

            def change(node: Object) -> None:
                node["spec"]["taints"] = [
                    {"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")
                ]
                set_condition(
                    node, "Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."
                )

            self.store.update(KINDS["nodes"], "", name, change)
            for pod in self.store.list(PODS, fields=f"spec.nodeName={name}"):
                meta = pod["metadata"]
                tolerated = [
                    each.get("tolerationSeconds", 1e9)
                    for each in pod["spec"]["tolerations"]
                    if each.get("key") in (UNREACHABLE, None)
                ]
                with contextlib.suppress(Refused):
                    self.store.update(
                        PODS,
                        meta["namespace"],
                        meta["name"],
                        lambda pod: set_condition(pod, "Ready", False, "NodeNotReady"),
                    )
                    if lost >= min(tolerated, default=0) and not meta.get("deletionTimestamp"):
                        self.event(
                            pod,
                            "TaintManagerEviction",
                            f"Marking for deletion Pod {meta['namespace']}/{meta['name']}",
                        )
                        self.delete(PODS, pod, {})

    def network_of(self, pod: Object) -> str:
        """The engine's network for a Pod: `none` where policies select it none of which lets anything out."""
        meta = pod["metadata"]
        policies = self.store.list(KINDS["networkpolicies"], meta["namespace"])
        specs = [
            one["spec"]
            for one in policies
            if self.enforce_network and selects(one["spec"]["podSelector"], meta.get("labels") or {})
        ]
        out = [spec.get("egress") for spec in specs if "Egress" in spec.get("policyTypes", ())]
        return "none" if out and not any(out) else "bridge"

    def event(
        self, obj: Object, reason: str, message: str, kind: str = "Normal", *, by_kubelet: bool = False
    ) -> None:
        """Tell of an object: a kubelet's words have times of their own."""
        meta, namespace = obj["metadata"], obj["metadata"]["namespace"]
        involved = {"kind": obj["kind"], "namespace": namespace, "name": meta["name"], "uid": meta["uid"]}
        told = {"involvedObject": involved, "reason": reason, "message": message, "type": kind}
        told |= {"lastTimestamp": now()} if by_kubelet else {"lastTimestamp": None, "eventTime": now(".%fZ")}
        own = {"name": f"{meta['name']}.{uuid.uuid4().hex[:16]}"}
        self.store.create(KINDS["events"], namespace, {"metadata": own, **told})

    # What the API server does.

    def create(self, kind: Kind, namespace: str, obj: Object) -> Object:
        """Make an object, with defaults. Raises Refused."""
        if kind.namespaced and not self.store.list(KINDS["namespaces"], fields=f"metadata.name={namespace}"):
            raise not_found(KINDS["namespaces"], namespace)
        if kind.name == "SelfSubjectAccessReview":
            asked = obj["spec"]["resourceAttributes"]
            resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
            return obj | {"status": {"allowed": not self.is_forbidden(asked["verb"], resource)}}
        check(kind, obj)
        if kind is PODS:
            admit(self.store, namespace, obj)
            obj = _with_defaults(obj)
        return self.store.create(kind, namespace, obj)

    def delete(self, kind: Kind, obj: Object, options: Object) -> Object:
        """Delete an object, a Pod after its grace, and return what the API says. Raises Refused."""
        meta = obj["metadata"]
        namespace, name, uid = meta.get("namespace", ""), meta["name"], meta["uid"]
        wanted = field(options, "preconditions.uid") or uid
        if wanted != uid:
            raise conflict(kind.name, "", name, _RECREATED.format(wanted, uid))
        if kind is PODS:
            grace = options.get("gracePeriodSeconds", obj["spec"]["terminationGracePeriodSeconds"])
            if not obj["spec"].get("nodeName") or obj["status"]["phase"] in FINAL:
                grace = 0
            until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + grace))

            def mark(pod: Object) -> None:
                if grace < pod["metadata"].get("deletionGracePeriodSeconds", grace + 1):
                    pod["metadata"] |= {"deletionTimestamp": until, "deletionGracePeriodSeconds": grace}

            marked = self.store.update(kind, namespace, name, mark)
            return marked if grace else self.store.remove(kind, namespace, name, uid)
        self.store.remove(kind, namespace, name, uid)
        for other in KINDS.values() if kind.name == "Namespace" else ():
            for inside in self.store.list(other, name):
                self.store.remove(other, name, inside["metadata"]["name"])
        details = details_of(kind, name) | {"uid": uid}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def patch(self, kind: Kind, namespace: str, name: str, patch: Object) -> Object:
        """Merge a patch into an object. Raises Refused."""

        def change(obj: Object) -> None:
            version = field(patch, "metadata.resourceVersion")
            if version and version != obj["metadata"]["resourceVersion"]:
                raise conflict(kind.qualified, kind.group, name, _MODIFIED)
            merge(obj, patch)
            check(kind, obj)

        return self.store.update(kind, namespace, name, change)

    def is_forbidden(self, verb: str, resource: str) -> bool:
        return any(pair in self.forbidden for pair in itertools.product((verb, "*"), (resource, "*")))

    def command(
        self, namespace: str, name: str, query: dict[str, list[str]]
    ) -> tuple[Callable[[], Command], Node]:
        """What begins a command in a container of a Pod, and the node that is on. Raises Refused."""
        pod = self.store.get(PODS, namespace, name)
        names = [container["name"] for container in pod["spec"]["containers"]]
        container = query.get("container", names)[0]
        if container not in (*names, *(one["name"] for one in pod["spec"].get("initContainers") or ())):
            raise Refused(400, "BadRequest", f"container {container} is not valid for pod {name}")
        if not pod["spec"].get("nodeName"):
            raise Refused(400, "BadRequest", f"pod {name} does not have a host assigned")
        runner = self._runners[pod["metadata"]["uid"]]
        runner.node.reachable.wait()
        if not runner.is_running(container):
            raise Refused(500, "", f'container not found ("{container}")')
        begin = functools.partial(
            Command, self.engine, runner.containers[container], query["command"], stdin="stdin" in query
        )
        return begin, runner.node


def _with_defaults(pod: Object) -> Object:
    """A Pod as it is stored: what is left out means something, too."""
    spec = _DEFAULTS | pod["spec"]
    for key in ("node.kubernetes.io/not-ready", UNREACHABLE):
        if not any(each.get("key") in (key, None) for each in spec["tolerations"]):
            own = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            spec["tolerations"] = [*spec["tolerations"], own]
    for container in spec["containers"]:
        if limits := field(container, "resources.limits"):
            container["resources"]["requests"] = limits | (container["resources"].get("requests") or {})
    return pod | {"spec": spec, "status": {"phase": "Pending"}}


if __name__ == "__main__":
    # Blocked before there are threads, which inherit that.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    with FakeCluster() as cluster:
        print(cluster.kubeconfig, flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
