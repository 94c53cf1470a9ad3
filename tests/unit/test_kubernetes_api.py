"""Calls of a cluster's API, against a server that says what a test has it say."""

from __future__ import annotations

import contextlib
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from wsproto.events import BytesMessage, Ping, Pong

from pytest_benchjobs.model.errors import ContainerLost, EngineLost, EngineRefused, EngineUnavailable
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.kubernetes import api, watching
from pytest_benchjobs.sandbox.kubernetes.api import NONCE, Cluster, NoRight
from pytest_benchjobs.sandbox.kubernetes.provider import ClusterSettings, KubernetesProvider
from pytest_benchjobs.sandbox.kubernetes.stream import STDERR, STDIN, STDOUT, Stream, StreamEnded

from .clusters import PODS, Answer, Scripted, Session, changes, command, pod, refusal, some

NODES = "/api/v1/nodes"
EXEC = f"{PODS}/p/exec"
RBAC = 'pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "trials"'


class Cancelled(Exception):
    pass


@pytest.fixture
def server() -> Iterator[Scripted]:
    script = Scripted()
    yield script
    script.stop()


@pytest.fixture
def cluster(server: Scripted, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(server.kubeconfig(tmp_path / "config"))
    yield cluster
    cluster.close()


def manifest(name: str = "p", nonce: str = "n1") -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name, "labels": {NONCE: nonce}}}


class TestReaching:
    def test_nothing_is_read_or_called_before_it_is_needed(self) -> None:
        Cluster("/nonexistent/config")

    def test_the_library_is_imported_with_the_first_call(self) -> None:
        code = (
            "import sys; from pytest_benchjobs.sandbox.kubernetes.api import Cluster; Cluster();"
            "print(sorted({'httpx2', 'lightkube', 'wsproto', 'msgspec'} & set(sys.modules)))"
        )
        assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"

    def test_a_file_that_is_not_there_is_told_with_what_to_do(self) -> None:
        with pytest.raises(EngineUnavailable, match=r"/nonexistent/config.*not found.*set KUBECONFIG"):
            Cluster("/nonexistent/config").version()

    def test_where_nothing_leads_to_a_cluster_nothing_is_left_in_one(self) -> None:
        provider = KubernetesProvider(
            current_owner(), ClusterSettings(kubeconfig=Path("/nonexistent/config"))
        )
        assert provider.sweep(shared=True) == 0
        with pytest.raises(EngineUnavailable, match="no cluster is known by"):
            provider.check()
        provider.close()

    def test_a_cluster_that_does_not_let_us_look_was_not_swept(
        self, server: Scripted, tmp_path: Path
    ) -> None:
        server.say("GET", "/version", refusal(403, "Forbidden", RBAC))
        config = Path(server.kubeconfig(tmp_path / "config"))
        provider = KubernetesProvider(current_owner(), ClusterSettings(kubeconfig=config))
        with pytest.raises(EngineUnavailable, match="refused to tell its version"):
            provider.sweep()
        provider.close()

    @pytest.mark.parametrize(
        "text", ["", "a: [", "clusters: []\ncontexts: []\n", "clusters: 3\ncontexts: 3\n"]
    )
    def test_a_file_that_is_no_kubeconfig(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "config").write_text(text, "utf-8")
        with pytest.raises(EngineUnavailable, match="no cluster is known by"):
            Cluster(str(tmp_path / "config")).version()

    def test_a_context_that_is_not_there(self, server: Scripted, tmp_path: Path) -> None:
        with pytest.raises(EngineUnavailable, match="'elsewhere' not found"):
            Cluster(server.kubeconfig(tmp_path / "config"), "elsewhere").version()

    def test_the_namespace_is_the_one_asked_for_or_that_of_the_context(
        self, server: Scripted, tmp_path: Path
    ) -> None:
        path = server.kubeconfig(tmp_path / "config")
        found = [Cluster(path), Cluster(path, "there"), Cluster(path, "there", "third")]
        assert [cluster.namespace for cluster in found] == ["trials", "others", "third"]

    def test_kubeconfig_may_name_several_files(
        self, server: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "first").write_text("current-context: here\ncontexts: []\nclusters: []\n", "utf-8")
        names = [str(tmp_path / "none"), str(tmp_path / "first"), server.kubeconfig(tmp_path / "second")]
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(names))
        assert Cluster().namespace == "trials"

    def test_where_we_are_in_a_pod_its_service_account_is_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Path
    ) -> None:
        from pytest_benchjobs.sandbox.kubernetes import reaching

        for name, text in {"token": "t", "namespace": "inside"}.items():
            (tmp_path / name).write_text(text, "utf-8")
        (tmp_path / "ca.crt").write_bytes((authority / "ca.pem").read_bytes())
        monkeypatch.setattr(reaching.KubeConfig.from_service_account.__func__, "__defaults__", (tmp_path,))
        monkeypatch.setattr(reaching, "SERVICE_ACCOUNT", str(tmp_path))
        monkeypatch.setattr(reaching, "DEFAULT_KUBECONFIG", str(tmp_path / "none"))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.9.8.7")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
        cluster = Cluster()
        assert (cluster.server, cluster.namespace) == ("https://10.9.8.7:443", "inside")

    def test_a_token_goes_with_each_call(self, server: Scripted, cluster: Cluster) -> None:
        server.say("GET", "/version", Answer({"gitVersion": "v1.2.3"}))
        assert cluster.version() == "v1.2.3"
        assert server.calls[0].headers["authorization"] == "Bearer s3cr3t"

    def test_nobody_at_the_address_is_told_soon(
        self, server: Scripted, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(api, "_FIRST", 0.5)
        server.stop()
        with pytest.raises(EngineUnavailable, match=r"no cluster answers at http://127.0.0.1:\d+ .*kubectl"):
            cluster.version()


class TestPlugins:
    """Programs that a kubeconfig names for credentials."""

    @pytest.fixture(params=["v1", "v1beta1"])
    def user(self, request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
        counter = tmp_path / "runs"
        script = (
            "import os, json; f = open(os.environ['COUNTER'], 'a+'); f.write('x'); f.seek(0); n = len(f.read());"
            "info = json.loads(os.environ['KUBERNETES_EXEC_INFO']);"
            "print(json.dumps({'apiVersion': info['apiVersion'], 'status': {'token': f't{n}'}}))"
        )
        return {
            "exec": {
                "apiVersion": f"client.authentication.k8s.io/{request.param}",
                "command": sys.executable,
                "args": ["-c", script],
                "env": [{"name": "COUNTER", "value": str(counter)}],
                "interactiveMode": "Never",
            }
        }

    def test_it_is_run_once_and_again_when_its_token_is_refused(
        self, server: Scripted, tmp_path: Path, user: dict[str, Any]
    ) -> None:
        answer = Answer({"gitVersion": "v1"})
        server.say("GET", "/version", answer, answer, refusal(401, "Unauthorized", "Unauthorized"), answer)
        with contextlib.closing(Cluster(server.kubeconfig(tmp_path / "config", user))) as cluster:
            for _ in range(3):
                cluster.version()
        tokens = [call.headers["authorization"] for call in server.calls]
        assert tokens == ["Bearer t1", "Bearer t1", "Bearer t1", "Bearer t2"]

    def test_threads_that_call_at_once_share_one_run(
        self, server: Scripted, tmp_path: Path, user: dict[str, Any]
    ) -> None:
        server.say("GET", "/version", Answer({"gitVersion": "v1"}))
        with (
            contextlib.closing(Cluster(server.kubeconfig(tmp_path / "config", user))) as cluster,
            ThreadPoolExecutor(8) as threads,
        ):
            assert list(threads.map(lambda _: cluster.version(), range(8))) == ["v1"] * 8
        assert (tmp_path / "runs").read_text("utf-8") == "x"
        assert len(server.calls) == 8

    def test_one_that_fails_says_why(self, server: Scripted, tmp_path: Path, user: dict[str, Any]) -> None:
        user["exec"] |= {
            "args": ["-c", "raise SystemExit('log in first')"],
            "installHint": "try `cloud login`",
        }
        with pytest.raises(EngineUnavailable, match=r"gives no token.*log in first.*try `cloud login`"):
            Cluster(server.kubeconfig(tmp_path / "config", user)).version()

    def test_one_that_is_not_there(self, server: Scripted, tmp_path: Path, user: dict[str, Any]) -> None:
        user["exec"]["command"] = "nonexistent-login"
        with pytest.raises(EngineUnavailable, match=r"nonexistent-login.*gives no token.*FileNotFound"):
            Cluster(server.kubeconfig(tmp_path / "config", user)).version()


class TestTurns:
    """Calls of many threads, of which few are under way."""

    def test_further_ones_wait_and_streams_do_not_count(self, server: Scripted, cluster: Cluster) -> None:
        cluster._turns = threading.BoundedSemaphore(2)
        under_way, most, all_there = 0, 0, threading.Semaphore(0)
        lock, go_on = threading.Lock(), threading.Event()

        def slow(handler: Any) -> None:
            nonlocal under_way, most
            with lock:
                under_way += 1
                most = max(most, under_way)
            all_there.release()
            go_on.wait(30)
            with lock:
                under_way -= 1
            handler.send_response(200)
            handler.send_header("Content-Length", "2")
            handler.end_headers()
            handler.wfile.write(b"{}")

        server.say("GET", f"{PODS}/p", slow)
        server.say("GET", EXEC, command(lambda session: None))
        looked = threading.Event()
        with ThreadPoolExecutor(3) as threads:
            first = [threads.submit(cluster.get, "Pod", "p") for _ in range(2)]
            for _ in first:
                assert all_there.acquire(timeout=30)
            last = threads.submit(cluster.get, "Pod", "p", check=looked.set)
            assert looked.wait(30)
            cluster.exec("p", "bench", ["true"]).close()
            assert len(server.calls) == 3
            go_on.set()
            assert [one.result(30) for one in (*first, last)] == [{}] * 3
        assert most == 2

    def test_one_that_waits_for_others_that_are_not_answered_is_not_answered_either(
        self, server: Scripted, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.say("GET", "/version", Answer({"gitVersion": "v1"}))
        cluster.version()
        monkeypatch.setattr(api, "OUTAGE", 0.3)
        cluster._turns = threading.BoundedSemaphore(1)
        with cluster._turns, pytest.raises(EngineLost, match=r"does not answer any more.*no other call"):
            cluster.version()
        assert cluster.version() == "v1"


class TestObjects:
    def test_made_found_changed_listed_and_deleted(self, server: Scripted, cluster: Cluster) -> None:
        server.say("POST", PODS, Answer(pod("p", "u1"), 201))
        server.say("GET", f"{PODS}/p", Answer(pod("p", "u1", "Running")))
        server.say("PATCH", f"{PODS}/p", Answer(pod("p", "u1", labels={"a": "b"})))
        server.say("DELETE", f"{PODS}/p", Answer({"kind": "Status", "status": "Success"}))
        server.say("GET", PODS, some(pod("p", "u1"), more="next"), some(pod("q", "u2")))
        assert cluster.create(manifest())["metadata"]["uid"] == "u1"
        found = cluster.get("Pod", "p")
        assert found is not None
        assert found["status"]["phase"] == "Running"
        changed = cluster.patch("Pod", "p", {"metadata": {"labels": {"a": "b"}}})
        assert changed is not None
        assert changed["metadata"]["labels"] == {"a": "b"}
        assert [one["metadata"]["name"] for one in cluster.list("Pod", "job=j")] == ["p", "q"]
        cluster.delete("Pod", "p", uid="u1", grace=3)
        post, _, patch, first, second, delete = server.calls
        assert post.body == manifest()
        assert patch.headers["content-type"] == "application/merge-patch+json"
        assert first.query == {"limit": ["500"], "labelSelector": ["job=j"]}
        assert second.query == first.query | {"continue": ["next"]}
        assert delete.body["preconditions"] == {"uid": "u1"}
        assert delete.body["gracePeriodSeconds"] == 3

    def test_kinds_have_their_paths(self, server: Scripted, cluster: Cluster) -> None:
        for kind in ("ConfigMap", "NetworkPolicy", "Node", "RuntimeClass"):
            assert cluster.get(kind, "x") is None
        assert [call.path for call in server.calls] == [
            "/api/v1/namespaces/trials/configmaps/x",
            "/apis/networking.k8s.io/v1/namespaces/trials/networkpolicies/x",
            "/api/v1/nodes/x",
            "/apis/node.k8s.io/v1/runtimeclasses/x",
        ]

    def test_what_is_gone_is_no_error(self, server: Scripted, cluster: Cluster) -> None:
        assert cluster.get("Pod", "p") is None
        assert cluster.patch("Pod", "p", {}) is None
        cluster.delete("Pod", "p")
        assert len(server.calls) == 3

    def test_another_object_of_that_name_is_not_deleted(self, server: Scripted, cluster: Cluster) -> None:
        server.say(
            "DELETE", f"{PODS}/p", refusal(409, "Conflict", "the UID in the precondition (u1) does not match")
        )
        cluster.delete("Pod", "p", uid="u1")
        assert len(server.calls) == 1

    def test_events_of_a_pod_come_in_order_and_without_the_right_not_at_all(
        self, server: Scripted, cluster: Cluster
    ) -> None:
        path = "/api/v1/namespaces/trials/events"
        late = {"reason": "Failed", "message": "no image", "lastTimestamp": "2026-01-01T00:00:02Z"}
        early = {"reason": "Scheduled", "lastTimestamp": None, "eventTime": "2026-01-01T00:00:01.5Z"}
        server.say("GET", path, refusal(403, "Forbidden", RBAC), some(late, early))
        assert cluster.events(pod("p", "u1")) == []
        assert [one["reason"] for one in cluster.events(pod("p", "u1"))] == ["Scheduled", "Failed"]
        assert server.calls[0].query["fieldSelector"] == ["involvedObject.uid=u1"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("answer", "error", "told"),
        [
            (refusal(403, "Forbidden", RBAC), NoRight, "cannot create resource.*ask for a role"),
            (refusal(401, "Unauthorized", "Unauthorized"), NoRight, "401: Unauthorized.*log in again"),
            (
                refusal(403, "Forbidden", 'pods "p" is forbidden: exceeded quota: q'),
                EngineRefused,
                "exceeded quota: q",
            ),
            (
                refusal(422, "Invalid", "spec.containers: Required value"),
                EngineRefused,
                "422: spec.containers",
            ),
            (
                refusal(404, "NotFound", 'namespaces "trials" not found'),
                EngineRefused,
                'namespaces "trials" not found',
            ),
            (Answer(b"<html>gateway</html>", 400), EngineRefused, "400: <html>gateway</html>"),
        ],
    )
    def test_it_is_told_at_once_in_the_clusters_words(
        self, server: Scripted, cluster: Cluster, answer: Answer, error: type[Exception], told: str
    ) -> None:
        server.say("POST", PODS, answer)
        with pytest.raises(error, match=f"refused to create Pod p .*{told}"):
            cluster.create(manifest())
        assert len(server.calls) == 1

    def test_it_has_the_status_and_the_words(self, server: Scripted, cluster: Cluster) -> None:
        server.say("POST", PODS, refusal(422, "Invalid", "what is\n wrong"))
        with pytest.raises(EngineRefused) as refused:
            cluster.create(manifest())
        assert (refused.value.status, refused.value.words) == (422, "what is wrong")


class TestCallsThatAreMadeAgain:
    @pytest.mark.parametrize(
        "answer",
        [
            *(refusal(status, "InternalError", "etcd leader changed") for status in (500, 502, 503, 504)),
            Answer(cut=True),
            refusal(403, "Forbidden", 'pods "p" is forbidden: not yet ready to handle request'),
            refusal(
                409,
                "Conflict",
                'Operation cannot be fulfilled on resourcequotas "q": the object has been modified',
            ),
        ],
    )
    def test_an_answer_of_not_now(self, server: Scripted, cluster: Cluster, answer: Answer) -> None:
        server.say("POST", PODS, answer, answer, Answer(pod("p", "u1"), 201))
        assert cluster.create(manifest())["metadata"]["uid"] == "u1"
        assert len(server.calls) == 3

    @pytest.mark.parametrize(
        "answer", [refusal(403, "Forbidden", RBAC), refusal(401, "Unauthorized", "Unauthorized")]
    )
    def test_a_right_that_was_there_is_there_soon_after_the_server_began_anew(
        self, server: Scripted, cluster: Cluster, answer: Answer
    ) -> None:
        server.say("POST", PODS, Answer(pod("p", "u1"), 201), answer, answer, Answer(pod("q", "u2"), 201))
        cluster.create(manifest())
        assert cluster.create(manifest("q"))["metadata"]["uid"] == "u2"
        server.say("DELETE", f"{PODS}/p", answer)
        with pytest.raises(NoRight):
            cluster.delete("Pod", "p")
        assert len(server.calls) == 5

    def test_too_many_requests_says_when_to_come_back(self, server: Scripted, cluster: Cluster) -> None:
        server.say(
            "GET",
            "/version",
            refusal(429, "TooManyRequests", "slow", **{"Retry-After": "1"}),
            Answer({"gitVersion": "v"}),
        )
        began = time.monotonic()
        cluster.version()
        assert 1 <= time.monotonic() - began < 3

    def test_a_server_that_is_started_again(self, server: Scripted, cluster: Cluster) -> None:
        server.say("GET", f"{PODS}/p", Answer(pod("p", "u1")))
        cluster.get("Pod", "p")
        server.stop()
        threading.Timer(1.0, server.start).start()
        assert cluster.get("Pod", "p") is not None

    def test_one_that_never_comes_back_is_lost(
        self, server: Scripted, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(api, "OUTAGE", 0.5)
        server.say("GET", "/version", Answer({"gitVersion": "v"}))
        cluster.version()
        server.stop()
        with pytest.raises(EngineLost, match="does not answer any more"):
            cluster.version()

    def test_nothing_is_called_once_it_was_let_go_of(self, server: Scripted, cluster: Cluster) -> None:
        server.say("GET", "/version", Answer({"gitVersion": "v"}))
        cluster.version()
        cluster.close()
        with pytest.raises(EngineLost, match="has let go of"):
            cluster.version()

    def test_not_now_for_ever_is_a_refusal(
        self, server: Scripted, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(api, "PATIENCE", 0.5)
        server.say("GET", "/version", refusal(500, "InternalError", "failed calling webhook"))
        with pytest.raises(EngineRefused, match="500: failed calling webhook"):
            cluster.version()

    def test_what_a_check_raises_comes_out_soon(self, server: Scripted, cluster: Cluster) -> None:
        server.say("GET", "/version", refusal(429, "TooManyRequests", "slow", **{"Retry-After": "20"}))
        began = time.monotonic()

        def check() -> None:
            if time.monotonic() > began + 0.5:
                raise Cancelled

        with pytest.raises(Cancelled):
            cluster.version(check=check)
        assert time.monotonic() - began < 2

    @pytest.mark.parametrize("nonce", ["n1", "another", None])
    def test_one_whose_answer_was_lost_has_made_what_has_its_nonce(
        self, server: Scripted, cluster: Cluster, nonce: str | None
    ) -> None:
        labels = {} if nonce is None else {NONCE: nonce}
        server.say("POST", PODS, Answer(cut=True), refusal(409, "AlreadyExists", 'pods "p" already exists'))
        server.say("GET", f"{PODS}/p", Answer(pod("p", "u1", labels=labels)))
        with (
            contextlib.nullcontext()
            if nonce == "n1"
            else pytest.raises(EngineRefused, match="already exists")
        ):
            assert cluster.create(manifest())["metadata"]["uid"] == "u1"


class TestWatching:
    @pytest.fixture
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watching, "_AGAIN", 0.05)

    @pytest.fixture
    def stay(self) -> Iterator[threading.Event]:
        """Watches end when it is set."""
        event = threading.Event()
        yield event
        event.set()

    @pytest.fixture
    def nodes(self, server: Scripted) -> None:
        server.say(
            "GET",
            NODES,
            refusal(403, "Forbidden", 'nodes is forbidden: User "u" cannot list resource "nodes"'),
        )

    def change(self, what: str, one: dict[str, Any]) -> dict[str, Any]:
        return {"type": what, "object": one}

    def test_states_are_those_of_the_list_and_of_changes(
        self, server: Scripted, cluster: Cluster, nodes: None, stay: threading.Event
    ) -> None:
        server.say(
            "GET",
            PODS,
            some(pod("p", "u1"), pod("q", "u2")),
            changes(
                self.change("MODIFIED", pod("p", "u1", "Running")),
                self.change("ADDED", {**pod("r", "u3"), "status": {"message": "a\x85b\u2028c"}}),
                self.change("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
                self.change("DELETED", pod("q", "u2")),
                stay=stay,
            ),
        )
        cluster.watch_pods("job=j")
        cluster.wait("u2", lambda state: state is None, 5)
        first, third = cluster.state("u1"), cluster.state("u3")
        assert first is not None
        assert third is not None
        assert first["status"]["phase"] == "Running"
        assert first["spec"] == {"nodeName": "node1"}
        assert first["metadata"] == {"name": "p", "uid": "u1", "deletionTimestamp": None}
        assert third["status"]["message"] == "a\x85b\u2028c"
        listed, watched = (call.query for call in server.calls if call.path == PODS)
        assert listed == {"limit": ["500"], "labelSelector": ["job=j"]}
        assert watched["labelSelector"] == ["job=j"]
        assert watched["resourceVersion"] == ["7"]

    @pytest.mark.parametrize(
        "gone", [{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}, None]
    )
    def test_after_a_cut_a_pod_that_is_missing_is_gone(
        self, server: Scripted, cluster: Cluster, nodes: None, quick: None, stay: threading.Event, gone: Any
    ) -> None:
        server.say(
            "GET",
            PODS,
            some(pod("p", "u1"), pod("q", "u2")),
            changes(gone, stay=stay) if gone else changes(0.2),
            Answer(cut=True),
            refusal(410, "Expired", "too old"),
            some(pod("p", "u1", "Failed")),
            changes(stay=stay),
        )
        cluster.watch_pods("job=j")
        assert cluster.wait("u2", lambda state: state is None, 5) is None
        state = cluster.state("u1")
        assert state is not None
        assert state["status"]["phase"] == "Failed"

    def test_it_goes_on_when_the_server_is_started_again(
        self, server: Scripted, cluster: Cluster, nodes: None, quick: None, stay: threading.Event
    ) -> None:
        server.say(
            "GET",
            PODS,
            some(pod("p", "u1")),
            changes(stay=stay),
            some(pod("p", "u1", "Running")),
            changes(stay=stay),
        )
        cluster.watch_pods("job=j")
        server.stop()
        threading.Timer(0.7, server.start).start()
        assert cluster.wait("u1", lambda state: state["status"]["phase"] == "Running", 8)  # type: ignore[index]

    def test_a_pod_is_there_as_soon_as_it_is_made(
        self, server: Scripted, cluster: Cluster, nodes: None, stay: threading.Event
    ) -> None:
        server.say("GET", PODS, some(), changes(stay=stay))
        server.say("POST", PODS, Answer(pod("p", "u1"), 201))
        cluster.watch_pods("job=j")
        assert cluster.state("u1") is None
        cluster.create(manifest())
        assert cluster.state("u1") is not None

    @pytest.mark.parametrize(("made", "there"), [("9", True), ("7", False)])
    def test_one_that_is_made_while_all_are_listed_is_gone_only_if_it_was_made_before(
        self,
        server: Scripted,
        cluster: Cluster,
        nodes: None,
        quick: None,
        stay: threading.Event,
        made: str,
        there: bool,
    ) -> None:
        """The list is of version 8."""
        asked, answered = threading.Event(), threading.Event()

        def slow(handler: Any) -> None:
            asked.set()
            answered.wait(5)
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(b'{"metadata": {"resourceVersion": "8"}, "items": []}')

        again = threading.Event()
        server.say(
            "GET",
            PODS,
            some(),
            changes(),
            slow,
            lambda handler: (again.set(), changes(stay=stay)(handler))[0],
        )
        server.say("POST", PODS, Answer(pod("p", "u1", resourceVersion=made), 201))
        cluster.watch_pods("job=j")
        assert asked.wait(5)
        cluster.create(manifest())
        answered.set()
        assert again.wait(5)
        assert (cluster.state("u1") is not None) is there

    def test_waiting_ends_with_its_time_or_what_a_check_raises(
        self, server: Scripted, cluster: Cluster, nodes: None, stay: threading.Event
    ) -> None:
        server.say("GET", PODS, some(pod("p", "u1")), changes(stay=stay))
        cluster.watch_pods("job=j")
        with pytest.raises(TimeoutError):
            cluster.wait("u1", lambda state: state is None, 0.3)

        def check() -> None:
            raise Cancelled

        with pytest.raises(Cancelled):
            cluster.wait("u1", lambda state: state is None, 5, check)

    def test_nodes_are_ready_unless_the_cluster_says_otherwise(
        self, server: Scripted, cluster: Cluster, stay: threading.Event
    ) -> None:
        def node(name: str, ready: str) -> dict[str, Any]:
            conditions = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}]
            return {"metadata": {"name": name}, "status": {"conditions": conditions}}

        server.say("GET", PODS, some(), changes(stay=stay))
        server.say(
            "GET",
            NODES,
            some(node("a", "True"), node("b", "Unknown")),
            changes(0.3, self.change("MODIFIED", node("a", "False")), stay=stay),
        )
        cluster.watch_pods("job=j")
        assert [cluster.node_ready(name) for name in ("a", "b", "never heard of")] == [True, False, True]
        deadline = time.monotonic() + 5
        while cluster.node_ready("a") and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not cluster.node_ready("a")

    def test_without_the_right_to_see_nodes_all_are_ready(
        self, server: Scripted, cluster: Cluster, nodes: None, stay: threading.Event
    ) -> None:
        server.say("GET", PODS, some(), changes(stay=stay))
        cluster.watch_pods("job=j")
        assert cluster.node_ready("a")

    def test_without_the_right_to_see_pods_there_is_no_watch(
        self, server: Scripted, cluster: Cluster
    ) -> None:
        server.say(
            "GET", PODS, refusal(403, "Forbidden", 'pods is forbidden: User "u" cannot list resource "pods"')
        )
        with pytest.raises(NoRight, match="cannot list"):
            cluster.watch_pods("job=j")


def echo(session: Session) -> None:
    for piece in session.pieces():
        session.say(STDOUT, piece[1:])


def drained(stream: Stream) -> tuple[dict[int, bytes], StreamEnded]:
    """All that comes, and how it ends."""
    found: dict[int, bytes] = {}
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            piece = stream.receive(1)
        except StreamEnded as ended:
            return found, ended
        if piece is not None:
            found[piece[0]] = found.get(piece[0], b"") + piece[1]
    raise AssertionError("it does not end")


class TestCommands:
    def test_it_is_asked_for_with_its_words_and_all_streams(self, server: Scripted, cluster: Cluster) -> None:
        server.say("GET", EXEC, command(Session.close, "v5.channel.k8s.io"))
        with contextlib.closing(cluster.exec("p", "main", ["sh", "-c", "a & b=ü"])) as stream:
            assert stream.protocol == "v5.channel.k8s.io"
        call = server.calls[0]
        assert call.query["command"] == ["sh", "-c", "a & b=ü"]
        assert {key: call.query[key] for key in ("container", "stdin", "stdout", "stderr")} == {
            "container": ["main"], "stdin": ["1"], "stdout": ["1"], "stderr": ["1"],
        }  # fmt: skip
        assert call.headers["sec-websocket-protocol"] == "v5.channel.k8s.io, v4.channel.k8s.io"
        assert call.headers["authorization"] == "Bearer s3cr3t"

    def test_any_bytes_go_in_and_come_out(self, server: Scripted, cluster: Cluster) -> None:
        server.say("GET", EXEC, command(echo))
        sent = bytes(range(256)) * 2000
        with contextlib.closing(cluster.exec("p", "main", ["cat"])) as stream:
            stream.send(sent)
            came = b""
            while len(came) < len(sent):
                piece = stream.receive(5)
                assert piece is not None
                assert piece[0] == STDOUT
                came += piece[1]
            assert came == sent
            assert stream.receive(0.05) is None

    def test_status_and_output_are_told_apart(self, server: Scripted, cluster: Cluster) -> None:
        def act(session: Session) -> None:
            session.say(STDOUT, b"")
            session.send(BytesMessage(b"\1ou", message_finished=False), BytesMessage(b"t"))
            session.say(STDERR, b"err")
            session.send(BytesMessage(b'\3{"status": ', message_finished=False), BytesMessage(b'"Success"}'))
            session.close()

        server.say("GET", EXEC, command(act))
        found, ended = drained(cluster.exec("p", "main", ["true"]))
        assert found == {STDOUT: b"out", STDERR: b"err"}
        assert ended.status == {"status": "Success"}

    def test_a_status_without_an_end_is_an_end(self, server: Scripted, cluster: Cluster) -> None:
        def act(session: Session) -> None:
            session.say(3, b'{"status": "Failure"}')
            list(session.pieces())

        server.say("GET", EXEC, command(act))
        with contextlib.closing(cluster.exec("p", "main", ["false"])) as stream:
            assert drained(stream)[1].status == {"status": "Failure"}

    def test_what_comes_with_the_head_is_not_lost(self, server: Scripted, cluster: Cluster) -> None:
        server.say("GET", EXEC, command(Session.close, early=b"\x82\x06\1early"))
        assert drained(cluster.exec("p", "main", ["true"]))[0] == {STDOUT: b"early"}

    @pytest.mark.parametrize("act", [Session.close, lambda session: session.connection.shutdown(2)])
    def test_an_end_without_a_status_says_nothing(self, server: Scripted, cluster: Cluster, act: Any) -> None:
        server.say("GET", EXEC, command(act))
        found, ended = drained(cluster.exec("p", "main", ["true"]))
        assert (found, ended.status) == ({}, None)

    def test_sending_to_one_that_is_cut_ends(self, server: Scripted, cluster: Cluster) -> None:
        server.say("GET", EXEC, command(lambda session: session.connection.shutdown(2)))
        stream = cluster.exec("p", "main", ["cat"])

        def send() -> None:
            for _ in range(100):
                stream.send(b"x" * 100_000)

        with pytest.raises(StreamEnded):
            send()

    def test_closing_ends_who_sends_and_who_receives(self, server: Scripted, cluster: Cluster) -> None:
        silent = threading.Event()
        server.say("GET", EXEC, command(lambda session: silent.wait(20)))
        stream = cluster.exec("p", "main", ["cat"])
        ends: list[BaseException] = []

        def until_it_ends(act: Any) -> None:
            try:
                act()
            except StreamEnded as ended:
                ends.append(ended)

        threads = [
            threading.Thread(target=until_it_ends, args=(act,))
            for act in (lambda: stream.send(b"x" * 50_000_000), lambda: stream.receive(20))
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        began = time.monotonic()
        stream.close()
        stream.close()
        for thread in threads:
            thread.join(5)
        silent.set()
        assert len(ends) == 2
        assert time.monotonic() - began < 3

    def test_a_ping_is_answered(self, server: Scripted, cluster: Cluster) -> None:
        heard = threading.Event()

        def act(session: Session) -> None:
            session.send(Ping(b"there?"))
            session.framing.receive_data(session.connection.recv(1000))
            if list(session.framing.events()) == [Pong(b"there?")]:
                heard.set()

        server.say("GET", EXEC, command(act))
        drained(cluster.exec("p", "main", ["cat"]))
        assert heard.wait(1)

    def test_what_is_no_websocket_ends(self, server: Scripted, cluster: Cluster) -> None:
        server.say("GET", EXEC, command(lambda session: session.connection.sendall(b"\xff" * 100)))
        assert "Invalid opcode" in str(drained(cluster.exec("p", "main", ["cat"]))[1])

    @pytest.mark.parametrize(
        ("answer", "error", "told"),
        [
            (
                refusal(404, "NotFound", 'pods "p" not found'),
                ContainerLost,
                'the Pod is gone.*pods "p" not found',
            ),
            (
                Answer(b'container not found ("main")', 500),
                ContainerLost,
                "does not run: container not found",
            ),
            (
                refusal(400, "BadRequest", "container x is not valid for pod p"),
                EngineRefused,
                "container x is not valid",
            ),
            (refusal(403, "Forbidden", 'User "u" cannot create resource "pods/exec"'), NoRight, "pods/exec"),
            (Answer({}), EngineRefused, "websocket"),
        ],
    )
    def test_it_cannot_be_started(
        self, server: Scripted, cluster: Cluster, answer: Answer, error: type[Exception], told: str
    ) -> None:
        server.say("GET", EXEC, answer)
        with pytest.raises(error, match=told):
            cluster.exec("p", "main", ["true"])

    def test_a_node_that_cannot_be_reached_is_tried_again(self, server: Scripted, cluster: Cluster) -> None:
        server.say(
            "GET", EXEC, refusal(500, "InternalError", "error dialing backend"), command(Session.close)
        )
        assert drained(cluster.exec("p", "main", ["true"]))[0] == {}

    def test_more_commands_than_a_pool_of_connections_usually_has(
        self, server: Scripted, cluster: Cluster
    ) -> None:
        server.say("GET", EXEC, command(echo))
        server.say("GET", "/version", Answer({"gitVersion": "v"}))
        with contextlib.ExitStack() as opened:
            streams = [
                opened.enter_context(contextlib.closing(cluster.exec("p", "main", ["cat"])))
                for _ in range(120)
            ]
            for number, stream in enumerate(streams):
                stream.send(str(number).encode())
            assert [stream.receive(5) for stream in streams] == [
                (1, str(number).encode()) for number in range(120)
            ]
            assert cluster.version() == "v"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a certificate of this machine, its key, and that of who signed it.

    As many clusters' do, it lacks an extension that Python 3.13 wants by default.
    """
    at = tmp_path_factory.mktemp("authority")
    (at / "extensions").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=none\n", "utf-8")
    for arguments in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca-key.pem -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=cluster -keyout key.pem -out request.pem",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile extensions -out cert.pem",
    ):
        subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True, cwd=at)
    return at


@pytest.fixture
def encrypted(authority: Path) -> Iterator[Scripted]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "cert.pem", authority / "key.pem")
    script = Scripted(context)
    yield script
    script.stop()


class TestEncrypted:
    def test_one_thread_sends_while_another_receives(
        self, encrypted: Scripted, authority: Path, tmp_path: Path
    ) -> None:
        encrypted.say("GET", EXEC, command(echo))
        trust = {"certificate-authority": str(authority / "ca.pem")}
        cluster = Cluster(encrypted.kubeconfig(tmp_path / "config", cluster=trust))
        size, came = 20_000_000, bytearray()
        with contextlib.closing(cluster), contextlib.closing(cluster.exec("p", "main", ["cat"])) as stream:
            sender = threading.Thread(target=stream.send, args=(b"x" * size,))
            sender.start()
            while len(came) < size:
                piece = stream.receive(10)
                assert piece is not None
                came += piece[1]
            sender.join()
        assert came == b"x" * size

    def test_a_certificate_that_is_not_trusted_is_refused(
        self, encrypted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(api, "_FIRST", 0.3)
        cluster = Cluster(encrypted.kubeconfig(tmp_path / "config"))
        with pytest.raises(EngineUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            cluster.version()


def test_stdin_is_the_channel_of_what_is_sent() -> None:
    assert STDIN == 0
