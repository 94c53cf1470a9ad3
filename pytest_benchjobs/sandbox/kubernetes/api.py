"""Our use of a cluster's API: objects as plain dictionaries, changes of Pods, commands in them.

    reaching.py   kubeconfig, credentials, connections
    watching.py   changes, of which one thread hears
    stream.py     the streams of a command

A call that is not answered, or by "not now", is made again for a while, as an API server may be restarted. All
methods may be called from any thread. Each takes a `check`, which is called several times a second while something is
waited for between calls; what it raises comes out. The client library is imported at the first call.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...model.errors import ContainerLost, EngineLost, EngineRefused, EngineUnavailable
from ...system.cutting import on_one_line
from .watching import LOOK, Object, Watch

if TYPE_CHECKING:
    import httpx2

    from .reaching import Reached
    from .stream import Stream

NONCE = "benchjobs/nonce"
"""A label by which an object is known again as the one that a call made whose answer was lost."""
OUTAGE = 90.0
"""Seconds for which a call is made again that is not answered."""
_FIRST = 5.0
"""The same, as long as the cluster has answered nothing yet."""
PATIENCE = 30.0
"""Seconds for which a call is made again that is answered by "not now"."""
_PAUSES = (0.1, 0.3, 0.8, 2.0)
_NOT_NOW = (429, 500, 502, 503, 504)
_OK = range(200, 300)
_SWITCHED, _UNAUTHORIZED, _FORBIDDEN, _ABSENT, _CONFLICT = 101, 401, 403, 404, 409
_PAGE = 500
_AT_ONCE = 20
"""Calls that are under way, beside streams: a thousand trials that end would each have a connection, with its keys."""
_SILENCE = 30.0
"""Seconds to wait for an answer, and for the next piece of it."""
_WATCH, _WATCH_SILENCE = 300, 100.0
"""Seconds after which changes are asked for anew, beginning with a list. The cluster says each minute how far it is."""
_SHOWN = 1000
_NO_RIGHT, _NOT_READY = " cannot ", "not yet ready to handle request"
"""Of refusals with the same status: by the rules of roles, and by a check of a server that has just begun."""
_OTHER = "UID"
"""Of a conflict: the object has another one than was wanted."""
_NOT_RUNNING = "container not found ("
"""What kubelets from 1.20 on say, as an error of theirs, of one that has not begun or has ended."""
_KINDS = {
    "Pod": ("api/v1", "pods"),
    "ConfigMap": ("api/v1", "configmaps"),
    "Event": ("api/v1", "events"),
    "NetworkPolicy": ("apis/networking.k8s.io/v1", "networkpolicies"),
    "Node": ("api/v1", "nodes"),
    "RuntimeClass": ("apis/node.k8s.io/v1", "runtimeclasses"),
    "Namespace": ("api/v1", "namespaces"),
    "SelfSubjectAccessReview": ("apis/authorization.k8s.io/v1", "selfsubjectaccessreviews"),
}
_OF_THE_CLUSTER = ("Node", "RuntimeClass", "Namespace", "SelfSubjectAccessReview")

Check = Callable[[], object]
Objects = list[Object]


def _nothing() -> None:
    """Check nothing."""


class NoRight(EngineUnavailable):
    """The cluster knows us, or does not, and does not let us do this."""


class Cluster:
    """A cluster, and a namespace in it. Nothing is read or called before it is needed.

    Args:
        kubeconfig: A file; None: `KUBECONFIG`, `~/.kube/config`, or the service account where we are in a Pod.
        context: Of that file; None: its current one.
        namespace: None: that of the context.

    Every method raises EngineUnavailable (nothing leads to it, or no rights), EngineLost (it does not answer any
    more) and EngineRefused (its own words, with `status`).
    """

    def __init__(
        self, kubeconfig: str | None = None, context: str | None = None, namespace: str | None = None
    ) -> None:
        self.wanted = (kubeconfig, context, namespace)
        self._lock = threading.Lock()
        self._reached: Reached | None = None
        self._pods: Watch | None = None
        self._nodes: Watch | None = None
        self._answered: float | None = None
        """When it last answered anything."""
        self._turns = threading.BoundedSemaphore(_AT_ONCE)
        self._rights: set[tuple[str, ...]] = set()
        """What it has let us do."""

    def is_known(self) -> bool:
        """Return False where nothing leads to a cluster, or no client library is installed; nothing is called."""
        try:
            self._reach()
        except EngineUnavailable:
            return False
        return True

    @property
    def namespace(self) -> str:
        """The namespace of all that is made."""
        return self._reach().namespace

    @property
    def server(self) -> str:
        """Its address."""
        return self._reach().server

    def close(self) -> None:
        """Stop watching, and close the connections."""
        self._watch_no_more()
        with self._lock:
            if self._reached is not None:
                self._reached.client.close()

    def version(self, *, check: Check = _nothing) -> str:
        """Return the version of its API server, such as `v1.34.1`."""
        return str(self._ask("tell its version", "GET", "version", check=check)["gitVersion"])

    def create(self, manifest: Mapping[str, Any], *, check: Check = _nothing) -> Object:
        """Make an object, and return it as it is then. One that is there already has to have the same `NONCE`."""
        kind, metadata = str(manifest["kind"]), manifest["metadata"]
        name = str(metadata.get("name", ""))
        does = f"create {kind} {name}".rstrip()
        status, made = self._call(does, "POST", self._path(kind), check=check, body=manifest)
        if status == _CONFLICT and made.get("reason") == "AlreadyExists":
            nonce = (metadata.get("labels") or {}).get(NONCE)
            there = self.get(kind, name, check=check)
            if nonce and there and (there["metadata"].get("labels") or {}).get(NONCE) == nonce:
                status, made = 200, there
        made = self._good(does, status, made)
        if kind == "Pod" and self._pods is not None:
            self._pods.note(made)
        return made

    def get(self, kind: str, name: str, *, check: Check = _nothing) -> Object | None:
        """Return an object; None: there is none of that name."""
        does = f"show {kind} {name}"
        status, found = self._call(does, "GET", self._path(kind, name), check=check)
        return None if status == _ABSENT else self._good(does, status, found)

    def list(self, kind: str, labels: str = "", fields: str = "", *, check: Check = _nothing) -> Objects:
        """Return all objects of a kind that a selector of labels, and one of fields, selects."""
        return self._list(kind, {"labelSelector": labels, "fieldSelector": fields}, check)[0]

    def patch(
        self, kind: str, name: str, changes: Mapping[str, Any], *, check: Check = _nothing
    ) -> Object | None:
        """Merge changes into an object, and return it as it is then; None: there is none of that name."""
        does = f"change {kind} {name}"
        status, found = self._call(does, "PATCH", self._path(kind, name), check=check, body=changes)
        return None if status == _ABSENT else self._good(does, status, found)

    def delete(
        self, kind: str, name: str, *, uid: str | None = None, grace: int | None = 0, check: Check = _nothing
    ) -> None:
        """Have an object deleted with what it owns, unless it is gone, or another one by its uid.

        `grace`: seconds that a Pod has to end; None: as its manifest says. It may be there for a while.
        """
        does = f"delete {kind} {name}"
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        status, said = self._call(does, "DELETE", self._path(kind, name), check=check, body=body)
        if status != _ABSENT and not (status == _CONFLICT and _OTHER in _words(said)):
            self._good(does, status, said)

    def events(self, pod: Mapping[str, Any], *, check: Check = _nothing) -> Objects:
        """Return what the cluster noted of a Pod, in order (`type`, `reason`, `message`); nothing without the right."""
        try:
            found = self.list("Event", fields=f"involvedObject.uid={pod['metadata']['uid']}", check=check)
        except NoRight:
            return []
        return sorted(found, key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""))

    def exec(self, pod: str, container: str, command: Sequence[str], *, check: Check = _nothing) -> Stream:
        """Start a command in a container of a Pod, with a standard input.

        Where an answer is lost, the command may be started twice.

        Raises ContainerLost: there is no such Pod, or its container does not run.
        """
        from .stream import PROTOCOLS, Stream

        does = f"run a command in Pod {pod}"
        answer = self._send(
            does,
            "GET",
            self._path("Pod", pod) + "/exec",
            check=check,
            stream=True,
            params={
                "container": container,
                "command": list(command),
                "stdin": "1",
                "stdout": "1",
                "stderr": "1",
            },
            headers={
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                # A nonce, which nobody has a use for here.
                "Sec-WebSocket-Key": "YmVuY2hqb2JzLWV4ZWMhIQ==",
                "Sec-WebSocket-Protocol": ", ".join(PROTOCOLS),
            },
        )
        if answer.status_code == _SWITCHED:
            return Stream(answer)
        said = _read(answer)
        if answer.status_code == _ABSENT or _NOT_RUNNING in _words(said):
            raise ContainerLost(f"the Pod is gone, or does not run: {_words(said)}")
        self._good(does, answer.status_code, said)
        raise EngineRefused(
            f"the cluster at {self.server} does not {does} by a websocket: is it behind a proxy?"
        )

    def watch_pods(self, labels: str, *, check: Check = _nothing) -> None:
        """Hear from now on of no Pods but those with these labels; and of Nodes, with the right to list them."""
        self._watch_no_more()
        self._pods = Watch(_Told(self, "Pod", labels, check), _uid, _slim)
        with contextlib.suppress(NoRight):
            self._nodes = Watch(_Told(self, "Node", "", check), _name, _is_ready)

    def _watch_no_more(self) -> None:
        for watch in (self._pods, self._nodes):
            if watch is not None:
                watch.close()

    def state(self, uid: str) -> Object | None:
        """Return the latest state of a watched Pod, by its uid; None: it is gone.

        It has `status`, of `spec` its `nodeName`, and of `metadata` what says which it is, and whether it is deleted.
        """
        return self._watched().state(uid)  # type: ignore[no-any-return]

    def states(self) -> Objects:
        """Return the latest states of all watched Pods."""
        return self._watched().states()

    def wait(
        self, uid: str, until: Callable[[Object | None], bool], timeout: float, check: Check = _nothing
    ) -> Object | None:
        """Return the first state of a watched Pod that is as wanted.

        Raises TimeoutError: none was, within so many seconds.
        """
        return self._watched().wait(uid, until, timeout, check)  # type: ignore[no-any-return]

    def node_ready(self, name: str) -> bool:
        """Return False for a Node that the cluster calls not ready, as far as it lets us know."""
        return self._nodes is None or self._nodes.state(name) is not False

    def _watched(self) -> Watch:
        if self._pods is None:
            raise RuntimeError("watch_pods comes first")
        return self._pods

    def _reach(self) -> Reached:
        with self._lock:
            if self._reached is None:
                try:
                    from .reaching import reach
                except ImportError as error:
                    raise EngineUnavailable(
                        f"{error}: install what sandboxes in a cluster need: pip install 'pytest-benchjobs[kubernetes]'"
                    ) from error
                self._reached = reach(*self.wanted)
            return self._reached

    def _path(self, kind: str, name: str = "") -> str:
        api, plural = _KINDS[kind]
        place = "" if kind in _OF_THE_CLUSTER else f"/namespaces/{self._reach().namespace}"
        return f"{api}{place}/{plural}" + (f"/{name}" if name else "")

    def _list(self, kind: str, selectors: Mapping[str, str], check: Check) -> tuple[Objects, str]:
        found: Objects = []
        params: dict[str, Any] = {"limit": _PAGE, **{key: value for key, value in selectors.items() if value}}
        while True:
            page = self._ask(f"list {kind}s", "GET", self._path(kind), check=check, params=params)
            found += page.get("items") or ()
            if not (more := page["metadata"].get("continue")):
                return found, str(page["metadata"]["resourceVersion"])
            params["continue"] = more

    def _ask(self, does: str, *call: Any, **more: Any) -> Object:
        return self._good(does, *self._call(does, *call, **more))

    def _call(self, does: str, *call: Any, **more: Any) -> tuple[int, Object]:
        answer = self._send(does, *call, **more)
        return answer.status_code, _read(answer)

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        silence: float = _SILENCE,
    ) -> httpx2.Request:
        from .reaching import timeout

        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return self._reach().client.build_request(
            method,
            path,
            params=params,
            content=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": kind, **(headers or {})},
            timeout=timeout(silence),
        )

    def _send(
        self, does: str, method: str, path: str, *, check: Check, stream: bool = False, **parts: Any
    ) -> httpx2.Response:
        """Call until there is an answer other than "not now", or patience is at its end; then return that."""
        client, request = self._reach().client, self._request(method, path, **parts)
        from .reaching import as_broken

        # A verb and a kind, as all that is done begins.
        right = tuple(does.split(" ")[:2])
        patience = _FIRST if self._answered is None else OUTAGE
        silent_until, tries = time.monotonic() + patience, 0
        not_now_until: float | None = None
        while True:
            check()
            pause = _PAUSES[min(tries, len(_PAUSES) - 1)]
            tries += 1
            try:
                with contextlib.nullcontext() if stream else self._turn(silent_until, check):
                    if client.is_closed:
                        raise EngineLost(f"the session has let go of the cluster at {self.server}")
                    with as_broken():
                        answer = client.send(request, stream=stream)
            except ConnectionError as error:
                left = silent_until - time.monotonic()
                if left <= 0:
                    raise self._silent(does, error) from error
            else:
                self._answered = time.monotonic()
                not_now_until = not_now_until or time.monotonic() + PATIENCE
                left = not_now_until - time.monotonic()
                if not _is_not_now(answer, had_right=right in self._rights):
                    if answer.status_code not in (_UNAUTHORIZED, _FORBIDDEN):
                        self._rights.add(right)
                    return answer
                if left <= 0:
                    return answer
                with contextlib.suppress(ValueError):
                    pause = max(pause, float(answer.headers.get("retry-after", "")))
                answer.close()
            _rest(min(pause, left), check)

    @contextlib.contextmanager
    def _turn(self, silent_until: float, check: Check) -> Iterator[None]:
        """Wait until few enough calls are under way. Raises ConnectionError: till then none of them was answered."""
        while not self._turns.acquire(timeout=LOOK):
            check()
            if time.monotonic() > max(silent_until, (self._answered or 0.0) + OUTAGE):
                raise ConnectionError("no other call is answered either")
        try:
            yield
        finally:
            self._turns.release()

    def _silent(self, does: str, error: Exception) -> Exception:
        if self._answered is not None:
            return EngineLost(f"the cluster at {self.server} does not answer any more ({does}: {error})")
        return EngineUnavailable(
            f"no cluster answers at {self.server} ({error}): see whether `kubectl version` does, or name another "
            "one by KUBECONFIG"
        )

    def _good(self, does: str, status: int, said: Object) -> Object:
        """Return what it said, if that was no refusal."""
        if status in _OK:
            return said
        words = _words(said)
        text = f"the cluster at {self.server} refused to {does} ({status}: {words})"
        if status == _UNAUTHORIZED:
            raise NoRight(f"{text}: see whether `kubectl auth whoami` knows you, and log in again")
        if status == _FORBIDDEN and _NO_RIGHT in words:
            raise NoRight(f"{text}: ask for a role with this right")
        raise EngineRefused(text, status=status, words=words)


class _Told:
    """For a `Watch`."""

    def __init__(self, cluster: Cluster, kind: str, labels: str, check: Check) -> None:
        self._cluster = cluster
        self._kind = kind
        self._selectors = {"labelSelector": labels} if labels else {}
        self._check = check
        self._closed = False
        self._answer: httpx2.Response | None = None

    def all(self) -> tuple[Objects, str]:
        """Return all there are, and the version of that list."""
        check, self._check = self._check, self._go_on
        return self._cluster._list(self._kind, self._selectors, check)

    @contextlib.contextmanager
    def changes(self, version: str) -> Iterator[Iterator[Object]]:
        """Yield what changes."""
        from .reaching import BROKEN, keep_alive, socket_of

        wanted = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": _WATCH,
        }
        does, path = f"watch {self._kind}s", self._cluster._path(self._kind)
        answer = self._cluster._send(
            does,
            "GET",
            path,
            check=self._check,
            stream=True,
            silence=_WATCH_SILENCE,
            params={**self._selectors, **wanted},
        )
        try:
            if answer.status_code not in _OK:
                self._cluster._good(does, answer.status_code, _read(answer))
            keep_alive(socket_of(answer))
            self._answer = answer
            self._check()
            yield _objects(answer)
        except (*BROKEN, OSError) as error:
            raise EngineLost(f"the cluster does not {does} any more: {error}") from error
        finally:
            self._answer = None
            answer.close()

    def hang_up(self) -> None:
        """End what goes on, and let nothing more begin."""
        from .reaching import socket_of

        self._closed = True
        if (answer := self._answer) is not None:
            with contextlib.suppress(OSError):
                socket_of(answer).shutdown(socket.SHUT_RDWR)

    def _go_on(self) -> None:
        if self._closed:
            raise EngineLost("nobody watches any more")


def _objects(answer: httpx2.Response) -> Iterator[Object]:
    """Yield the lines of an answer, which end at no other characters, as those of the client do."""
    rest = b""
    for piece in answer.iter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        yield from map(json.loads, lines)


def _is_not_now(answer: httpx2.Response, *, had_right: bool) -> bool:
    """Return True for an answer that another call may not get."""
    status = answer.status_code
    if status in (*_OK, _SWITCHED, _ABSENT):
        return False
    said = _read(answer)
    words = _words(said)
    if status in (_UNAUTHORIZED, _FORBIDDEN):
        # A server that has just begun knows nobody's rights.
        return _NOT_READY in words or (had_right and (status == _UNAUTHORIZED or _NO_RIGHT in words))
    if status == _CONFLICT:  # of a quota that others change at the same time, say
        return said.get("reason") == "Conflict" and _OTHER not in words
    return status in _NOT_NOW and _NOT_RUNNING not in words


def _read(answer: httpx2.Response) -> Object:
    """Return the object that an answer is; anything else is its `message`."""
    from .reaching import BROKEN

    with contextlib.suppress(*BROKEN):
        answer.read()
        with contextlib.suppress(ValueError):
            found = json.loads(answer.content)
            if isinstance(found, dict):
                return found
        return {"message": answer.text}
    return {}


def _words(said: Mapping[str, Any]) -> str:
    return on_one_line(str(said.get("message") or said.get("reason") or ""), _SHOWN) or "no reason given"


def _rest(seconds: float, check: Check) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(LOOK, left))


def _uid(found: Object) -> str:
    return str(found["metadata"]["uid"])


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])


def _slim(pod: Object) -> Object:
    metadata = {key: pod["metadata"].get(key) for key in ("name", "uid", "deletionTimestamp")}
    node = {"nodeName": pod["spec"].get("nodeName")}
    return {"metadata": metadata, "spec": node, "status": pod.get("status") or {}}


def _is_ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
