"""Which image an environment has, who looks for it and who waits, without an engine."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import ImageBuildFailed, ImageMissing
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import build as build_module
from pytest_benchjobs.sandbox.docker import images as module
from pytest_benchjobs.sandbox.docker.build import Recipe
from pytest_benchjobs.sandbox.docker.image_budget import Urgency
from pytest_benchjobs.sandbox.docker.images import Images, resolved
from pytest_benchjobs.sandbox.docker.pulling import Refused, Registries
from pytest_benchjobs.sandbox.protocol import ImageRequest
from pytest_benchjobs.system import keeping

VERSION = {"Os": "linux", "Arch": "arm64"}


class Engine:
    """One with some images."""

    def __init__(self, **images: str) -> None:
        self.images = images
        self.asked: list[str] = []
        self.given: list[float] = []
        """Timeouts of builds."""

    def get(self, path: str) -> Any:
        self.asked.append(path)
        if path == "/version":
            return VERSION
        name = path.removeprefix("/images/").removesuffix("/json")
        found = self.images.get(name)
        return None if found is None else {"Id": found}


@pytest.fixture(autouse=True)
def pulled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Names that a registry was asked for, and with patience or without; it has nothing."""
    asked: list[tuple[str, bool]] = []

    def pull(self: Registries, name: str, check: object, *, patient: bool = True) -> None:
        asked.append((name, patient))
        raise Refused("no such thing ")

    monkeypatch.setattr(Registries, "pull", pull)
    return asked


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    directory = tmp_path / "cache"
    monkeypatch.setenv("BENCHJOBS_CACHE", str(directory))
    return directory


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tags that were built: each is there afterwards."""
    tags: list[str] = []

    def build(engine: Engine, recipe: Recipe, tag: str, timeout: float, check: Callable[[], object]) -> None:
        tags.append(tag)
        engine.given.append(timeout)
        engine.images[tag] = f"sha256:of-{len(tags)}"

    monkeypatch.setattr(build_module, "build", build)
    return tags


def _images(engine: Engine) -> Images:
    return Images(engine)  # type: ignore[arg-type]


def _dockerfile(directory: Path, text: str = "FROM base\n") -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "Dockerfile").write_text(text)
    return directory / "Dockerfile"


# Identified, from what is here alone


def test_an_image_that_is_here_is_known_by_its_id(pulled: list[tuple[str, bool]]) -> None:
    engine = Engine(debian="sha256:1", mine="sha256:2")
    images = _images(engine)
    assert images.identify(ImageRequest(Environment(image="debian"))) == "sha256:1"
    assert images.identify(ImageRequest(Environment(image="debian"), {"debian": "mine"})) == "sha256:2"
    assert images.identify(ImageRequest(Environment(image="other"))) is None
    engine.images["other"] = "sha256:3"
    assert images.identify(ImageRequest(Environment(image="other"))) == "sha256:3", "it is looked for again"
    assert pulled == []


def test_what_all_trials_share_is_looked_at_once_until_it_is_forgotten() -> None:
    engine = Engine(debian="sha256:1")
    images = _images(engine)
    environment = Environment(image="debian")
    assert [images.identify(ImageRequest(environment)) for _ in range(3)] == ["sha256:1"] * 3
    assert len(engine.asked) == 1
    image = images.resolve(ImageRequest(environment))
    assert images.resolve(ImageRequest(environment)) is image
    engine.images["debian"] = "sha256:2"
    images.forget(image.id)
    assert images.identify(ImageRequest(environment)) == "sha256:2"
    assert images.resolve(ImageRequest(environment)).id == "sha256:2"


def test_what_would_be_built_is_known_by_its_ingredients_once_all_of_its_bases_are_here(
    tmp_path: Path, built: list[str]
) -> None:
    engine = Engine()
    images = _images(engine)
    dockerfile = _dockerfile(tmp_path / "task", "FROM base\nCOPY --from=tools /a /b\n")
    environment = Environment(dockerfile=dockerfile)
    engine.images["base"] = "sha256:1"
    assert images.identify(ImageRequest(environment)) is None
    engine.images["tools"] = "sha256:2"
    tag = images.identify(ImageRequest(environment))
    assert tag is not None
    assert images.resolve(ImageRequest(environment)).record.key == tag
    assert built == [tag]
    assert images.identify(ImageRequest(environment, {}, {"A": "1"})) not in (None, tag)


def test_a_named_image_may_yet_be_pulled_unless_it_was_built_instead(
    tmp_path: Path, built: list[str]
) -> None:
    engine = Engine(base="sha256:1")
    images = _images(engine)
    environment = Environment(image="named", dockerfile=_dockerfile(tmp_path / "task"))
    assert images.identify(ImageRequest(environment)) is None
    images.resolve(ImageRequest(environment))
    assert images.identify(ImageRequest(environment)) == built[0]


# Resolved


def test_an_image_is_built_where_the_named_one_cannot_be_had_and_nobody_waits_for_that_one(
    tmp_path: Path, built: list[str], pulled: list[tuple[str, bool]]
) -> None:
    engine = Engine(base="sha256:1")
    environment = Environment(
        image="named", dockerfile=_dockerfile(tmp_path / "task"), build_timeout=77,
        build_args={"A": "1", "B": "2"},
    )  # fmt: skip
    found = _images(engine).resolve(ImageRequest(environment, {"named": "mine"}, {"A": "3"}))
    assert pulled == [("mine", False)]
    assert (found.id, found.record.reference, found.record.key) == ("sha256:of-1", "Dockerfile", built[0])
    assert found.record.substituted == {}
    assert engine.given == [77]
    # What was given for the job goes before the scenario's own.
    again = Environment(dockerfile=environment.dockerfile, build_args={"B": "2", "A": "3"})
    assert _images(engine).resolve(ImageRequest(again)).record.key == built[0]
    assert len(built) == 1


def test_an_image_that_cannot_be_had_is_asked_for_with_patience_and_its_error_says_what_to_do(
    pulled: list[tuple[str, bool]],
) -> None:
    message = r"image x is not .* pulled: no such thing\. Pull .* --bench-image-map x="
    with pytest.raises(ImageMissing, match=message):
        _images(Engine()).resolve(ImageRequest(Environment(image="x")))
    assert pulled == [("x", True)]


def test_what_another_process_has_brought_meanwhile_is_taken(
    tmp_path: Path, built: list[str], pulled: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(base="sha256:1")

    @contextlib.contextmanager
    def lock(name: str, check: object) -> Iterator[None]:
        """Stand for having waited for the other one."""
        engine.images[name.removeprefix("pull-docker.io/library/").removesuffix(":latest")] = "sha256:2"
        yield

    monkeypatch.setattr(module, "machine_lock", lock)
    images = _images(engine)
    assert images.resolve(ImageRequest(Environment(image="debian"))).id == "sha256:2"
    assert (
        images.resolve(ImageRequest(Environment(dockerfile=_dockerfile(tmp_path / "task")))).id == "sha256:2"
    )
    assert (pulled, built) == ([], [])


def test_what_a_registry_had_is_taken_and_what_is_gone_again_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine()

    def pull(self: Registries, name: str, check: object, *, patient: bool = True) -> None:
        if name == "debian":
            engine.images[name] = "sha256:1"

    monkeypatch.setattr(Registries, "pull", pull)
    assert _images(engine).resolve(ImageRequest(Environment(image="debian"))).id == "sha256:1"
    with pytest.raises(ImageMissing, match="the pull succeeded, but the engine does not have it"):
        _images(engine).resolve(ImageRequest(Environment(image="other")))


def test_bases_that_were_mapped_are_in_the_record(tmp_path: Path, built: list[str]) -> None:
    engine = Engine(mine="sha256:1", debian="sha256:3")
    dockerfile = _dockerfile(tmp_path / "task")
    found = _images(engine).resolve(ImageRequest(Environment(dockerfile=dockerfile), {"base": "mine"}))
    assert found.record.substituted == {"base": "mine"}
    named = _images(engine).resolve(
        ImageRequest(Environment(image="old"), {"docker.io/library/old": "debian"})
    )
    assert (named.record.reference, named.record.id, named.record.key) == ("old", "sha256:3", "sha256:3")
    assert named.record.substituted == {"old": "debian"}
    assert _images(engine).resolve(ImageRequest(Environment(image="debian"))).record.substituted == {}


def test_a_build_that_left_no_image_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "build", lambda *_: None)
    with pytest.raises(ImageBuildFailed, match="the build succeeded, but the engine does not have its image"):
        _images(Engine(base="1")).resolve(
            ImageRequest(Environment(dockerfile=_dockerfile(tmp_path / "task")))
        )


def test_the_platform_of_the_engine_is_that_of_what_is_built(tmp_path: Path, built: list[str]) -> None:
    text = "FROM base-$TARGETARCH\nFROM other-$BUILDOS\nFROM $TARGETPLATFORM\n"
    engine = Engine(**{"base-arm64": "1", "other-linux": "2", "linux/arm64": "3"})
    environment = Environment(dockerfile=_dockerfile(tmp_path / "task", text))
    assert _images(engine).identify(ImageRequest(environment)) is not None


def test_what_an_image_says_of_itself_is_taken_and_what_it_does_not_say_is_empty() -> None:
    record = _images(Engine(x="1")).resolve(ImageRequest(Environment(image="x"))).record
    bare = resolved({"Id": "1"}, record)
    assert (bare.workdir, bare.user, bare.entrypoint, bare.env) == ("", "", (), {})
    config = {"WorkingDir": "/app", "User": "me", "Entrypoint": ["/a", "b"], "Env": ["A=1=2", "B="]}
    full = resolved({"Id": "1", "Config": config}, record)
    assert (full.workdir, full.user, full.entrypoint) == ("/app", "me", ("/a", "b"))
    assert full.env == {"A": "1=2", "B": ""}


def test_what_was_left_out_is_told_to_the_first_trial_alone(tmp_path: Path, built: list[str]) -> None:
    environment = Environment(
        dockerfile=_dockerfile(tmp_path / "task"), hidden=(tmp_path / "task" / "answers",)
    )
    (tmp_path / "task" / "answers").write_text("")
    images = _images(Engine(base="1"))
    notes = [images.resolve(ImageRequest(environment), urgency=one).note for one in (Urgency.AHEAD, *Urgency)]
    assert [note is None for note in notes] == [False, False, False, True]
    assert _images(Engine(base="1", **{built[0]: "2"})).resolve(ImageRequest(environment)).note is None


def test_an_ended_history_is_a_layer_known_by_the_image_below_and_the_place(built: list[str]) -> None:
    images = _images(Engine(debian="sha256:1", other="sha256:1", new="sha256:2"))
    base = {"git_history": "base", "workdir": "/a"}
    asked = [{}, base, {**base, "workdir": "/b"}, {**base, "git_history": "0" * 40}]
    environments = [Environment(image="debian", **one) for one in asked]
    environments += [Environment(image=name, **base) for name in ("other", "new")]
    told = [images.identify(ImageRequest(one)) for one in environments]
    assert told == [images.resolve(ImageRequest(one)).record.key for one in environments]
    assert told[4] == told[1]
    assert len({*told}) == 5
    assert built == [*told[1:4], told[5]]


def test_each_environment_is_resolved_for_itself(tmp_path: Path, built: list[str]) -> None:
    engine = Engine(base="1", other="2")
    images = _images(engine)
    one, two = _dockerfile(tmp_path / "one"), _dockerfile(tmp_path / "two", "FROM base\nUSER me\n")
    (tmp_path / "two" / "file").write_text("x")
    asked: list[ImageRequest] = [
        ImageRequest(Environment(dockerfile=one)),
        ImageRequest(Environment(dockerfile=two)),
        ImageRequest(Environment(dockerfile=one, context=tmp_path / "two")),
        ImageRequest(Environment(dockerfile=one), {"base": "other"}),
        ImageRequest(Environment(dockerfile=one), {}, {"A": "1"}),
    ]
    keys = [images.resolve(each).record.key for each in asked]
    assert len(set(keys)) == len(asked)


# Waiting for each other


class GivenUp(Exception):
    pass


def _give_up_after(seconds: float) -> Callable[[], None]:
    until = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > until:
            raise GivenUp

    return check


def test_an_image_is_built_by_one_process_of_a_machine_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_LOOK", 0.01)
    with module.machine_lock("benchjobs/x:1", lambda: None):
        with pytest.raises(GivenUp), module.machine_lock("benchjobs/x:1", _give_up_after(0.05)):
            raise AssertionError("two of them")
        with module.machine_lock("benchjobs/x:2", _give_up_after(5)):
            pass  # another image
    with module.machine_lock("benchjobs/x:1", _give_up_after(5)):
        pass


def test_who_waits_for_an_image_goes_on_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_LOOK", 0.01)
    order: list[str] = []

    def other() -> None:
        with module.machine_lock("x", _give_up_after(20)):
            order.append("other")

    with module.machine_lock("x", lambda: None):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.1)
        order.append("first")
    thread.join(20)
    assert order == ["first", "other"]


def test_where_there_are_no_locks_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: object, how: int) -> None:
        raise OSError(errno.ENOLCK, "none")

    monkeypatch.setattr(fcntl, "flock", flock)
    with module.machine_lock("x", _give_up_after(0)), module.machine_lock("x", _give_up_after(0)):
        pass


def test_where_the_cache_cannot_be_written_locks_are_in_a_directory_of_the_users_own(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("no directory")
    monkeypatch.setattr(keeping.tempfile, "gettempdir", lambda: str(tmp_path))
    for _ in range(2):
        with module.machine_lock("benchjobs/x:1", lambda: None):
            (directory,) = tmp_path.glob("benchjobs-locks-*")
            assert directory.stat().st_mode & 0o777 == 0o700
            assert [path.name for path in directory.iterdir()] == ["benchjobs-x-1.lock"]


def test_an_image_that_is_being_looked_for_is_waited_for_as_long_as_the_trial_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeping, "_LOOK", 0.01)
    lock = threading.Lock()
    with keeping.taken(lock, lambda: None):
        with pytest.raises(GivenUp), keeping.taken(lock, _give_up_after(0.05)):
            raise AssertionError("two of them")
        assert lock.locked()
    assert not lock.locked()
    with contextlib.suppress(KeyError), keeping.taken(lock, lambda: None):
        raise KeyError
    assert not lock.locked()


def test_two_trials_that_need_an_image_have_it_built_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = threading.Event(), threading.Event()
    built: list[str] = []

    def build(engine: Engine, recipe: Recipe, tag: str, *_: object) -> None:
        built.append(tag)
        started.set()
        go_on.wait(20)
        engine.images[tag] = "sha256:9"

    monkeypatch.setattr(build_module, "build", build)
    images = _images(Engine(base="1"))
    environment = Environment(dockerfile=_dockerfile(tmp_path / "task"))
    found: list[str] = []

    def resolve() -> None:
        found.append(images.resolve(ImageRequest(environment)).id)

    threads = [threading.Thread(target=resolve) for _ in range(2)]
    threads[0].start()
    started.wait(20)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert found == ["sha256:9"] * 2
    assert len(built) == 1
