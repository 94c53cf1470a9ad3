"""File systems that were kept, as images of an engine: what is written on them, and what is read from that."""

from __future__ import annotations

import contextlib
import datetime
import shlex
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EngineError, ImageMissing
from pytest_benchjobs.model.result import ImageRecord
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker.dialects import DOCKER, PODMAN, Dialect
from pytest_benchjobs.sandbox.docker.images import ResolvedImage
from pytest_benchjobs.sandbox.docker.keeping import commit, environment_of, forget_kept, kept, kept_image
from pytest_benchjobs.sandbox.paths import DEFAULT_PATH
from pytest_benchjobs.sandbox.protocol import KEPT, Kept, SandboxSpec

RECORD = ImageRecord(reference="debian", id="sha256:1")


class Engine:
    """With such images: reference -> what is said of it."""

    def __init__(self, *, dialect: Dialect = DOCKER, **images: Any) -> None:
        self.dialect = dialect
        self.posted: list[tuple[Any, ...]] = []
        self.removed: list[tuple[Any, ...]] = []
        self.refuses: Exception | None = None
        self.listed: list[dict[str, Any]] = []
        self.histories: dict[str, Any] = {}
        self.said = images
        self.client = SimpleNamespace(images=self._images, remove_image=self._remove)

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        yield

    def get(self, path: str) -> Any:
        name, _, what = path.removeprefix("/images/").rpartition("/")
        return {"json": self.said, "history": self.histories}[what].get(name)

    def post(self, path: str, body: Any, timeout: float, **query: Any) -> None:
        self.posted.append((path, body, query))

    def _images(self, filters: dict[str, str]) -> list[dict[str, Any]]:
        assert filters == {"label": "benchjobs.kept=1"}
        return self.listed

    def _remove(self, reference: str, *, force: bool, noprune: bool) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.removed.append((reference, force, noprune))


def _commit(
    image: ResolvedImage, environment: Environment, dialect: Dialect = DOCKER
) -> tuple[dict[str, Any], list[str]]:
    """Keep a container; returns the configuration that was sent, and instructions."""
    engine: Any = Engine(dialect=dialect)
    spec = SandboxSpec(environment, {"job": "j", "trial": "t"}, "none", 60)
    assert commit(engine, "c", "name", image, spec, holes=True) == f"{KEPT}name"
    ((path, body, query),) = engine.posted
    assert (path, query["container"], query["tag"], query["pause"]) == ("/commit", "c", "name", "0")
    assert f"{query['repo']}:" == KEPT
    assert isinstance(body, dict)
    return body, query.get("changes", [])


def test_what_is_kept_has_no_value_of_the_scenarios_variables_and_no_owner() -> None:
    image = ResolvedImage("sha256:1", RECORD, "/app", "me", ("/entry",), {"LANG": "C"})
    body, changes = _commit(
        image,
        Environment(
            image="x", env={"TOKEN": "secret", "LANG": "de", "PATH": "/x"}, memory=1 << 26, user="me"
        ),
    )
    variables = dict(one.split("=", 1) for one in body["Env"])
    assert variables == {"TOKEN": "", "LANG": "C", "PATH": DEFAULT_PATH}
    assert (body["User"], body["Entrypoint"], body["Cmd"]) == ("me", ["/entry"], ["sh"])
    labels = body["Labels"]
    assert [labels[f"benchjobs.{key}"] for key in ("owner", "host", "deadline", "kept", "holes")] == [
        "", "", "", "1", "1",
    ]  # fmt: skip
    assert ("secret" in str(body), changes) == (False, [])
    bare, _ = _commit(ResolvedImage("i", RECORD, "/", "", (), {}), Environment(image="x"))
    assert bare["User"] == "root", "an image without a user is root's"
    # Whoever starts from it has the same again.
    engine: Any = Engine(
        it={"Id": "sha256:2", "Config": {"Labels": labels, "User": "other", "WorkingDir": "/w"}}
    )
    again = kept_image(engine, "it")
    assert (again.record, again.holes) == (RECORD, True)
    found = environment_of(engine, "it")
    assert (found.memory, found.user, found.network, found.env) == (1 << 26, "me", "none", {})


def test_podman_keeps_it_with_instructions_from_which_the_same_is_read() -> None:
    image = ResolvedImage("sha256:1", RECORD, "/app", "", ("/my entry",), {})
    _, changes = _commit(image, Environment(image="x", workdir="/a b", memory=1 << 26), PODMAN)
    *others, user = changes
    assert others[-2:] == ['ENTRYPOINT ["/my entry"]', 'CMD ["sh"]']
    assert user == "USER root"
    # Podman 4.3 takes all that follows, and 5.4 words without their quotes.
    words = [shlex.split(one)[1:] for one in others[:-2]]
    assert [" ".join(one) for one in words] == [one.removeprefix("LABEL ") for one in others[:-2]]
    labels = dict(one.split("=", 1) for (one,) in words)
    assert (labels["benchjobs.owner"], labels["benchjobs.kept"]) == ("", "1")
    engine: Any = Engine(it={"Id": "sha256:2", "Config": {"Labels": labels}})
    assert kept_image(engine, "it").record == RECORD
    found = environment_of(engine, "it")
    assert (found.workdir, found.memory) == ("/a b", 1 << 26)


@pytest.mark.parametrize(("user", "found"), [("other", "other"), ("", None)])
def test_without_a_user_of_the_scenario_it_is_that_of_the_image(user: str, found: str | None) -> None:
    labels = {"benchjobs.image-record": RECORD.model_dump_json()}
    engine: Any = Engine(it={"Config": {"Labels": labels, "User": user}})
    assert environment_of(engine, "it").user == found


def test_what_is_gone_or_was_never_kept_is_missing() -> None:
    engine: Any = Engine(
        other={"Config": {"Labels": {"a": "b"}}}, plain={"Config": None}, bare={"Config": {}}
    )
    with pytest.raises(ImageMissing, match="gone is no longer on this machine"):
        kept_image(engine, "gone")
    for name in ("other", "plain", "bare"):
        with pytest.raises(ImageMissing, match=f"{name} is not an image that was kept"):
            environment_of(engine, name)


def test_all_that_was_kept_is_told_the_oldest_first() -> None:
    engine: Any = Engine()
    labels = {"benchjobs.job": "j", "benchjobs.trial": "t", "benchjobs.bundle": "/b"}
    engine.listed = [
        {"RepoTags": [f"docker.io/library/{KEPT}new", "mine:new"], "Created": 20, "Labels": labels},
        {"RepoTags": [f"{KEPT}b", f"{KEPT}a"], "Created": 10, "Labels": None},
        {"RepoTags": None, "Created": 1, "Labels": labels},
    ]
    engine.histories = {f"{KEPT}new": [{"Size": 7}, {"Size": 1000}], f"{KEPT}a": []}
    early, late = (datetime.datetime.fromtimestamp(at, datetime.UTC) for at in (10, 20))
    assert kept(engine) == [
        Kept(f"{KEPT}a", "", "", "", 0, early),
        Kept(f"{KEPT}b", "", "", "", 0, early),
        Kept(f"{KEPT}new", "j", "t", "/b", 7, late),
    ]


def test_only_what_was_kept_is_forgotten_and_without_its_parents() -> None:
    engine: Any = Engine()
    assert forget_kept(engine, f"{KEPT}a")
    assert engine.removed == [(f"{KEPT}a", True, True)]
    assert not forget_kept(engine, "debian")
    engine.refuses = EngineError("no such image")
    assert not forget_kept(engine, f"{KEPT}a")
    assert len(engine.removed) == 1
