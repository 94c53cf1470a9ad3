"""Sizes of images: what the engine, this machine and registries know of them."""

from __future__ import annotations

import http.client
import json
import urllib.error
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import ImageBuildFailed, ImageMissing, ImageTooLarge
from pytest_benchjobs.model.image import ImageSize
from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.report.documents.plan import ImageTotal, totals
from pytest_benchjobs.sandbox.docker import image_record as record_module
from pytest_benchjobs.sandbox.docker import registry as registry_module
from pytest_benchjobs.sandbox.docker.image_budget import ImageBudget, Urgency
from pytest_benchjobs.sandbox.docker.image_record import RecordFile, Sizes
from pytest_benchjobs.sandbox.docker.images import Images
from pytest_benchjobs.sandbox.docker.registry import NoAnswer, sizes_of
from pytest_benchjobs.sandbox.late import LateProvider
from pytest_benchjobs.sandbox.protocol import ImageRequest
from pytest_benchjobs.testing import FakeProvider

from ..docker.scripted import ScriptedRegistry

VERSION = {"Os": "linux", "Arch": "arm64"}


class Engine:
    """One with some images, and their sizes."""

    host = "unix:///engine.sock"

    def __init__(self, **images: int) -> None:
        self.images = images

    def get(self, path: str, **_: object) -> Any:
        if path == "/version":
            return VERSION
        name = path.removeprefix("/images/").removesuffix("/json").removeprefix("id-of-")
        return {"Id": f"id-of-{name}", "Size": self.images[name]} if name in self.images else None


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    def sizes_of(image: str, machine: str) -> None:
        raise AssertionError(f"{image} was asked for")

    monkeypatch.setattr(registry_module, "sizes_of", sizes_of)


def _weigh(engine: Any, environment: Environment, *, ask: bool = False, **mapped: str) -> ImageSize:
    return Images(engine).weigh(ImageRequest(environment, mapped), ask=ask)


def _dockerfile(directory: Path, text: str) -> Path:
    (directory / "task").mkdir()
    (directory / "task" / "Dockerfile").write_text(text)
    return directory / "task" / "Dockerfile"


@pytest.mark.usefixtures("no_questions")
def test_of_an_image_that_is_here_the_engine_knows_the_size() -> None:
    engine = Engine(debian=7, mine=8)
    here = ImageSize(image="debian", state="here", bytes=7)
    assert _weigh(engine, Environment(image="debian"), ask=True) == here
    assert _weigh(engine, Environment(image="debian"), debian="mine").image == "mine"
    assert _weigh(engine, Environment(image="debian"), debian="mine").bytes == 8


@pytest.mark.usefixtures("no_questions")
def test_of_others_a_plan_knows_what_is_remembered() -> None:
    unknown = ImageSize(image="gone", state="pull")
    assert _weigh(Engine(), Environment(image="gone")) == unknown
    with RecordFile(Engine.host).opened() as record:
        record.sizes["gone"] = 30
        record.told["gone"] = Sizes(stored=10, unpacked=30)
    known = ImageSize(image="gone", state="pull", bytes=30, download=10)
    assert _weigh(Engine(), Environment(image="gone"), ask=True) == known
    assert _weigh(Engine(), Environment(image="theirs"), theirs="gone") == known


def test_what_a_registry_says_is_remembered_unless_it_goes_on_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = ScriptedRegistry(b"base", 1000, "arm64")
    registry.start()
    try:
        environment = Environment(image=registry.image(1))
        with monkeypatch.context() as short:
            short.setattr(registry_module, "_MOST_BYTES", 10)
            assert _weigh(Engine(), environment, ask=True).download is None
        found = _weigh(Engine(), environment, ask=True)
    finally:
        registry.stop()
    assert found.state == "pull"
    assert found.bytes is None
    assert found.download is not None
    assert found.download > 1000
    # It is gone now.
    assert _weigh(Engine(), environment, ask=True) == found
    assert _weigh(Engine(), environment) == found


@pytest.mark.usefixtures("no_questions")
def test_what_is_built_has_the_size_it_had_when_it_was_here(tmp_path: Path) -> None:
    environment = Environment(dockerfile=_dockerfile(tmp_path, "FROM base\n"))
    shown = str(environment.dockerfile)
    to_build = ImageSize(image=shown, state="build")
    assert _weigh(Engine(), environment, ask=True) == to_build
    engine = Engine(base=1)
    assert _weigh(engine, environment, ask=True) == to_build
    tag = Images(engine).identify(ImageRequest(environment))  # type: ignore[arg-type]
    assert tag is not None
    with RecordFile(Engine.host).opened() as record:
        record.sizes[tag] = 5
    assert _weigh(engine, environment) == ImageSize(image=shown, state="build", bytes=5)
    engine.images[tag] = 6
    assert _weigh(engine, environment) == ImageSize(image=shown, state="here", bytes=6)


def test_what_was_built_instead_of_a_named_image_is_here(tmp_path: Path) -> None:
    dockerfile = _dockerfile(tmp_path, "FROM base\n")
    engine = Engine(base=1)
    environment = Environment(image="named", dockerfile=dockerfile)
    assert _weigh(engine, environment) == ImageSize(image="named", state="pull")
    tag = Images(engine).identify(ImageRequest(Environment(dockerfile=dockerfile)))  # type: ignore[arg-type]
    assert tag is not None
    engine.images[tag] = 6
    assert _weigh(engine, environment) == ImageSize(image="named", state="here", bytes=6)


def test_what_cannot_be_weighed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ImageBuildFailed, match="cannot be read"):
        _weigh(Engine(), Environment(dockerfile=tmp_path / "nowhere"))
    with pytest.raises(ImageMissing, match="neither an image nor a Dockerfile"):
        _weigh(Engine(), Environment())


def test_a_registry_that_does_not_answer_is_asked_three_times_and_others_are_asked_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def sizes_of(image: str, machine: str) -> Sizes | None:
        assert machine == "arm64"
        asked.append(image)
        if image.startswith("gone.example"):
            raise NoAnswer("gone")
        return None if image.endswith("secret") else Sizes(stored=1, unpacked=3)

    monkeypatch.setattr(registry_module, "sizes_of", sizes_of)
    engine: Any = Engine()
    images = Images(engine)
    names = [f"gone.example/{number}" for number in range(9)]
    for name in [*names, "here.example/1", "here.example/secret", "here.example/secret"]:
        images.weigh(ImageRequest(Environment(image=name)), ask=True)
    assert asked == [*names[:3], "here.example/1", "here.example/secret"]
    assert images.weigh(ImageRequest(Environment(image="here.example/1")), ask=True).download == 1
    assert set(RecordFile(Engine.host).read().told) == {"here.example/1"}


def test_several_threads_may_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "sizes_of", lambda *_: Sizes(stored=1, unpacked=3))
    engine: Any = Engine()
    images = Images(engine)
    requests = [ImageRequest(Environment(image=f"r.example/{n}")) for n in range(20)]
    with ThreadPoolExecutor(len(requests)) as pool:
        list(pool.map(lambda request: images.weigh(request, ask=True), requests))
    assert len(RecordFile(Engine.host).read().told) == 20


def test_a_place_that_cannot_be_written_only_forgets(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(registry_module, "sizes_of", lambda *_: Sizes(stored=1, unpacked=3))
    cache.write_text("no directory")
    assert _weigh(Engine(), Environment(image="r.example/1"), ask=True).download == 1


def test_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "_MOST_SIZES", 2)
    for number in range(4):
        with RecordFile(Engine.host).opened() as record:
            record.sizes[f"image-{number}"] = number
            record.told[f"image-{number}"] = Sizes(stored=number, unpacked=number)
    record = RecordFile(Engine.host).read()
    assert list(record.sizes) == list(record.told) == ["image-2", "image-3"]


# Questions


def _http(status: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("http://r", status, "no", Message(), None)


@pytest.mark.parametrize(
    "error",
    [
        lambda: _http(429), lambda: _http(503), lambda: urllib.error.URLError("nobody"), TimeoutError,
        ConnectionResetError, lambda: http.client.IncompleteRead(b""),
    ],
)  # fmt: skip
def test_a_registry_that_cannot_be_asked_now_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception]
) -> None:
    def call(*_: object) -> bytes:
        raise error()

    monkeypatch.setattr(registry_module, "_call", call)
    for image in ("r.example/x:1", "debian", "debian@sha256:00"):
        with pytest.raises(NoAnswer):
            sizes_of(image, "amd64")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"layers": 3}', b'{"images": [{}]}', b'{"images": []}']
)
def test_a_registry_that_says_nothing_of_sizes_is_believed(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(registry_module, "_call", lambda *_: body)
    assert sizes_of("r.example/x:1", "amd64") is None
    assert sizes_of("debian", "amd64") is None


def test_an_image_that_nobody_has_is_of_unknown_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*_: object) -> bytes:
        raise _http(404)

    monkeypatch.setattr(registry_module, "_call", call)
    assert sizes_of("r.example/x:1", "amd64") is None


def test_docker_hub_is_asked_where_a_question_is_no_pull(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    sizes = {"amd64": 5, "arm64": 7}
    images = [{"os": "linux", "architecture": machine, "size": size} for machine, size in sizes.items()]

    def call(url: str, headers: object) -> bytes:
        asked.append(url)
        return json.dumps({"images": images}).encode()

    monkeypatch.setattr(registry_module, "_call", call)
    assert sizes_of("debian:bookworm-slim", "arm64") == Sizes(stored=7, unpacked=21)
    assert sizes_of("docker.io/owner/name", "amd64") == Sizes(stored=5, unpacked=15)
    assert sizes_of("owner/name", "riscv64") is None
    places = [url.partition("/v2/repositories/")[2] for url in asked]
    assert places == ["library/debian/tags/bookworm-slim", *["owner/name/tags/latest"] * 2]


# Who else uses it


def test_a_job_with_a_budget_remembers_what_its_registry_said_and_does_not_ask_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def sizes_of(image: str, machine: str) -> Sizes:
        asked.append(image)
        return Sizes(stored=200, unpacked=600)

    monkeypatch.setattr(registry_module, "sizes_of", sizes_of)
    for _ in range(2):
        engine: Any = Engine()
        budget = ImageBudget(
            engine, Images(engine), current_owner(), "job", JobConfig(directory=Path(), image_budget=100)
        )
        with pytest.raises(ImageTooLarge), budget.bringing("x", Urgency.TRIAL, lambda: None):
            raise AssertionError("it does not fit")
    assert asked == ["x"]
    assert RecordFile(Engine.host).read().told == {"x": Sizes(stored=200, unpacked=600)}


def test_sandboxes_without_images_weigh_nothing() -> None:
    provider = LateProvider(lambda: FakeProvider(current_owner()))
    assert provider.weigh(ImageRequest(Environment(image="x"))) is None


def test_a_total_counts_what_is_sent_where_that_is_known() -> None:
    assert list(totals([])) == []
    images = [
        ImageSize(image="a", state="pull", bytes=30, download=10),
        ImageSize(image="b", state="here", bytes=5),
        ImageSize(image="c", state="pull", bytes=20),
        ImageSize(image="d", state="pull"),
        ImageSize(image="e", state="build"),
    ]
    assert list(totals(images)) == [
        ImageTotal(state="here", images=1, bytes=5, unknown=0),
        ImageTotal(state="pull", images=3, bytes=30, unknown=1),
        ImageTotal(state="build", images=1, bytes=0, unknown=1),
    ]
