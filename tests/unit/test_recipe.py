"""What a Dockerfile is built from: the name it gets, what the engine is sent, and what nobody sees of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pytest

from pytest_benchjobs.model.baseline import BaselineFile
from pytest_benchjobs.model.errors import DiskFull, EngineLost, ImageBuildFailed
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import build as module
from pytest_benchjobs.sandbox.docker.build import Recipe, build
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.protocol import ImageRequest

TEXT = "FROM base\nCOPY . /app\n"
NO_ENGINE = Engine()
Builder = Callable[[Callable[..., object] | Exception], None]


def _read(
    context: Path,
    *,
    dockerfile: Path | None = None,
    hidden: Iterable[Path] = (),
    image_map: Mapping[str, str] = {},
    arguments: Mapping[str, str] = {},
    platform: Callable[[], Mapping[str, str]] = dict,
) -> Recipe:
    environment = Environment(
        dockerfile=dockerfile or context / "Dockerfile", context=context, hidden=tuple(hidden)
    )
    return Recipe.read(ImageRequest(environment, image_map, arguments), platform)


@pytest.fixture
def context(tmp_path: Path) -> Path:
    context = tmp_path / "task"
    (context / "src").mkdir(parents=True)
    (context / "Dockerfile").write_text(TEXT)
    (context / "src" / "main.py").write_text("print(1)\n")
    (context / "link").symlink_to("src/main.py")
    return context


def _tag(context: Path, arguments: Mapping[str, str] = {}, **bases: str) -> str:
    return _read(context, arguments=arguments).tag(bases or {"base": "sha256:1"})


# The name


@pytest.mark.parametrize(
    "change",
    [
        lambda context: (context / "Dockerfile").write_text(TEXT + "USER me\n"),
        lambda context: (context / "src" / "main.py").write_text("print(2)\n"),
        lambda context: (context / "src" / "main.py").chmod(0o755),
        lambda context: (context / "src" / "main.py").chmod(0o640),
        lambda context: (context / "src" / "main.py").chmod(0o4644),
        lambda context: (context / "src").chmod(0o1755),
        lambda context: (context / "src").chmod(0o700),
        lambda context: (context / "empty").mkdir(),
        lambda context: (context / ".dockerignore").write_text("*\n!src\n!link\n.dockerignore\n"),
        lambda context: (context / "src" / "main.py").rename(context / "src" / "other.py"),
        lambda context: (context / "more").write_text(""),
        lambda context: ((context / "link").unlink(), (context / "link").symlink_to("src")),
        lambda context: ((context / "link").unlink(), (context / "link").write_text("src/main.py")),
    ],
    ids=[
        *("text", "content", "executable", "mode", "set-uid", "sticky directory", "mode of a directory"),
        *("empty directory", "Dockerfile not copied", "name", "new file", "target", "no link"),
    ],
)
def test_every_ingredient_is_in_the_name(context: Path, change: Callable[[Path], object]) -> None:
    (context / "src" / "main.py").chmod(0o644)
    (context / "src").chmod(0o755)
    before = _tag(context)
    change(context)
    assert _tag(context) != before


def test_arguments_and_bases_are_in_the_name_each_for_itself() -> None:
    def tag(arguments: Mapping[str, str], bases: Mapping[str, str]) -> str:
        nothing = Path("/nothing/task")
        return Recipe(nothing / "Dockerfile", nothing, TEXT, {}, arguments, {}, ()).tag(bases)

    made = [
        tag({}, {}),
        tag({"a": "b"}, {}),
        tag({}, {"a": "b"}),
        tag({"a": "c"}, {}),
        tag({"ab": ""}, {}),
        tag({"": "ab"}, {}),
        tag({"a": "", "b": ""}, {}),
        tag({"a": "b"}, {"a": "b"}),
    ]
    assert len(set(made)) == len(made)
    assert tag({"a": "1", "b": "2"}, {"c": "3", "d": "4"}) == tag({"b": "2", "a": "1"}, {"d": "4", "c": "3"})


def test_the_same_ingredients_have_the_same_name_anywhere(context: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "task"
    other.parent.mkdir()
    subprocess.run(["cp", "-a", context, other], check=True)
    os.utime(other / "src" / "main.py", (1, 1))
    assert _tag(other) == _tag(context)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("My Task_2", "my-task-2"),
        ("fix bug/environment", "fix-bug"),
        ("fix-bug/docker", "fix-bug"),
        ("日本語", "image"),
        ("--x--", "x"),
    ],
)
def test_an_image_is_called_as_the_directory_of_its_task(tmp_path: Path, path: str, name: str) -> None:
    context = tmp_path / path
    context.mkdir(parents=True)
    (context / "Dockerfile").write_text("FROM scratch\n")
    repository, _, digest = _read(context).tag({}).partition(":")
    assert repository == f"benchjobs/{name}"
    assert digest.isalnum()


# Reading


def test_what_is_ignored_is_no_part_of_it(context: Path) -> None:
    before = _read(context)
    (context / "debug.log").write_text("x")
    (context / "#kept").write_text("y")
    (context / ".dockerignore").write_text("# comment\n\n   \n  *.log  \n#kept\n")
    found = _read(context)
    assert set(found.paths) == {*before.paths, "#kept", ".dockerignore"}
    tag = found.tag({})
    (context / "debug.log").write_text("z")
    assert _read(context).tag({}) == tag


def test_a_dockerfile_that_cannot_be_read_is_a_failed_build(tmp_path: Path) -> None:
    with pytest.raises(ImageBuildFailed, match="Dockerfile: cannot be read: "):
        _read(tmp_path)


def test_a_dockerfile_may_be_in_any_encoding(context: Path) -> None:
    written = b"\xef\xbb\xbfFROM base\r\n# caf\xe9\r\nRUN \\\r\n  echo \xff\r\nCOPY src /\r\n"
    (context / "Dockerfile").write_bytes(written)
    recipe = _read(context, image_map={"base": "mine"})
    assert (recipe.bases, recipe.substituted) == (("mine",), {"base": "mine"})
    sent = _members(recipe.archive())
    assert sent[recipe.name][1] == written[3:].replace(b"base", b"mine")
    assert _tag(context) != _tag(context, base="sha256:2")
    # What can name no image is left to the builder, which says so.
    (context / "Dockerfile").write_bytes(b"FROM caf\xe9 AS x\nFROM base\n")
    assert _read(context).bases == ("base",)


@pytest.mark.parametrize("pattern", ["[", "[]a]", "a\\", "!", "[[:digits:]]", "[[:digit:]"])
def test_a_line_that_is_no_pattern_is_a_failed_build_with_its_line(context: Path, pattern: str) -> None:
    (context / ".dockerignore").write_text(f"a\n{pattern}\n")
    with pytest.raises(ImageBuildFailed, match=r"/\.dockerignore:2: .* cannot be read as a pattern"):
        _read(context)


def test_the_platform_is_looked_up_only_for_those_who_name_it(context: Path) -> None:
    def platform() -> Mapping[str, str]:
        asked.append(1)
        return {"TARGETARCH": "arm64", "BUILDARCH": "arm64"}

    asked: list[int] = []
    assert _read(context, platform=platform).bases == ("base",)
    assert asked == []
    (context / "Dockerfile").write_text("ARG TARGETARCH\nFROM base-$TARGETARCH\n")
    assert _read(context, platform=platform).bases == ("base-arm64",)
    assert asked == [1]
    given = _read(context, platform=platform, arguments={"TARGETARCH": "mine"})
    assert given.bases == ("base-mine",)


def test_each_variable_without_a_value_gets_a_hint_and_those_of_the_builder_none(context: Path) -> None:
    assert _read(context).hint == ""
    (context / "Dockerfile").write_text(
        "ARG A\nARG B\nARG TARGETARCH\nFROM $A\nFROM x:$B\nFROM $TARGETARCH\n"
    )
    first, second, *rest = _read(context).hint.splitlines()[1:]
    assert rest == []
    assert first.startswith("FROM $A: A has no value")
    assert first.endswith("--bench-build-arg A=...")
    assert second.startswith("FROM x:$B: B has no value")
    assert _read(context, arguments={"A": "debian", "B": "1"}).hint == ""


HIDDEN = ("tests", "deep/gold.patch", "all.bench.yaml")


@pytest.fixture
def whole(context: Path) -> Path:
    """A context with the answers and results of a benchmark in it."""
    names = (
        "tests/test_it.py deep/gold.patch deep/shown history.sqlite jobs/.benchjobs solved/reports/history.sqlite "
        "solved/reports/jobs/.benchjobs all.bench.yaml other.bench.toml bench-known.toml data.json"
    )
    for path in map(context.joinpath, names.split()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (context / "src/conftest.py").write_text("def pytest_bench_scorers():\n")
    (context / "main.json").write_text(BaselineFile(name="main", scenarios=()).model_dump_json())
    return context


def test_what_would_give_an_agent_answers_or_results_stays_here(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(whole)
    hidden = [*(tmp_path / "link" / name for name in HIDDEN), tmp_path, Path("/elsewhere")]
    recipe = _read(whole, hidden=hidden)
    assert recipe.left_out == (
        *("all.bench.yaml", "bench-known.toml", "deep/gold.patch", "history.sqlite", "jobs", "main.json"),
        *("other.bench.toml", "solved/reports", "src/conftest.py", "tests"),
    )
    assert (
        " ".join(sorted(recipe.paths)) == "Dockerfile data.json deep deep/shown link solved src src/main.py"
    )
    assert (recipe.note or "").endswith("deep/gold.patch, history.sqlite, jobs and 5 more")
    (whole / ".dockerignore").write_text(
        "tests\n*.bench.*\n*.json\nbench-known.toml\nsolved\ndeep/*.patch\njobs\n*.sqlite\n**/conftest.py\n"
    )
    ignored = _read(whole, hidden=hidden)
    assert (ignored.left_out, ignored.note) == ((), None)


@pytest.mark.parametrize(
    ("copy", "wrong"),
    [
        ("COPY . /app", None),
        ("COPY deep /app/", None),
        ("COPY --from=x tests /app", None),
        ("COPY <<tests /app\ntests\ntests", None),
        ("RUN echo COPY tests /app", None),
        ("COPY tests/ /app", "tests/"),
        ("ADD --chown=me ./tests/test_it.py src /app/", "./tests/test_it.py"),
        ('COPY ["src", "/tests", "/app/"]', "/tests"),
        ("ARG WHAT=tests\nCOPY \\\n  $WHAT /app", "tests"),
        ("COPY *.bench.* /app/", "*.bench.*"),
        ("COPY [^b-z]*.bench.* /app/", "[^b-z]*.bench.*"),
        ("COPY solved/reports/jobs /app", "solved/reports/jobs"),
    ],
)
def test_an_instruction_that_copies_nothing_else_is_an_error_with_its_line(
    whole: Path, copy: str, wrong: str | None
) -> None:
    (whole / "Dockerfile").write_text(f"FROM base\n{copy}\n")
    line = 3 if copy.startswith("ARG") else 2
    told = f"Dockerfile:{line}: (COPY|ADD) {re.escape(wrong or '')}: no image may hold it"
    with contextlib.nullcontext() if wrong is None else pytest.raises(ImageBuildFailed, match=told):
        _read(whole, hidden=[whole / name for name in HIDDEN])


# What the engine is sent


def _members(archive: IO[bytes]) -> dict[str, tuple[tarfile.TarInfo, bytes | None]]:
    with archive, tarfile.open(fileobj=archive) as tar:
        found = {
            member.name: (member, (tar.extractfile(member) or archive).read() if member.isreg() else None)
            for member in tar
        }
        assert sorted(found) == sorted(tar.getnames())  # nothing is sent twice
        return found


def test_the_context_goes_to_the_engine_as_files_of_root(context: Path) -> None:
    os.mkfifo(context / "pipe")
    recipe = _read(context)
    assert recipe.name == "Dockerfile"
    sent = _members(recipe.archive())
    assert set(sent) == {"Dockerfile", "src", "src/main.py", "link", ".dockerignore"}
    assert sent["src/main.py"][1] == b"print(1)\n"
    assert sent["Dockerfile"][1] == TEXT.encode()
    assert sent["link"][0].linkname == "src/main.py"
    assert sent["src"][0].isdir()
    for member, _ in sent.values():
        assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
    # What we add is not for the image.
    assert sent[".dockerignore"][1] == b"\n.dockerignore"
    assert sent[".dockerignore"][0].mode == 0o644


def test_a_dockerfile_that_was_mapped_or_lies_elsewhere_goes_by_a_name_of_its_own(
    context: Path, tmp_path: Path
) -> None:
    (tmp_path / "Other").write_text(TEXT)
    for recipe, text in (
        (_read(context, image_map={"base": "mine"}), TEXT.replace("base", "mine")),
        (_read(context, dockerfile=tmp_path / "Other"), TEXT),
    ):
        assert recipe.name == ".benchjobs.Dockerfile"
        sent = _members(recipe.archive())
        assert sent[recipe.name][1] == text.encode()
        assert sent[".dockerignore"][1] == b"\n.dockerignore\n.benchjobs.Dockerfile"


def test_an_own_list_of_what_is_ignored_is_kept_and_hides_our_file_too(context: Path) -> None:
    (context / ".dockerignore").write_text("*.log\nsrc/*.pem")
    (context / "src" / "secret.pem").write_text("x")
    sent = _members(_read(context, image_map={"base": "mine"}).archive())
    assert sent[".dockerignore"][1] == b"*.log\nsrc/*.pem\n.benchjobs.Dockerfile"
    assert "src/secret.pem" not in sent


def test_a_dockerfile_that_is_ignored_is_sent_only_to_be_read(context: Path) -> None:
    (context / ".dockerignore").write_text("Docker*")
    assert "Dockerfile" in _members(_read(context).archive())
    assert "Dockerfile" not in _members(_read(context, image_map={"base": "mine"}).archive())


def test_what_went_away_meanwhile_is_not_sent(context: Path) -> None:
    recipe = _read(context)
    (context / "src" / "main.py").unlink()
    sent = _members(recipe.archive())
    assert "src/main.py" not in sent
    assert sent["link"][0].issym()  # which leads nowhere now


def test_a_context_that_cannot_be_read_is_a_failed_build(
    context: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("no")

    recipe = _read(context)
    monkeypatch.setattr(tarfile.TarFile, "add", refuse)
    with pytest.raises(ImageBuildFailed, match="task: the build context cannot be read: no"):
        recipe.archive()


def test_the_builders_templates_are_not_filled_in(context: Path) -> None:
    recipe = _read(context, arguments={"A": "${B} %{C} $D 100%"})
    definition: Any = module._definition(recipe, "benchjobs/x:1", "context")
    (target,) = definition["target"].values()
    assert target["args"] == {"A": "$${B} %%{C} $D 100%"}
    assert (target["dockerfile"], target["tags"]) == ("Dockerfile", ["benchjobs/x:1"])
    assert target["labels"] == {"benchjobs.image": "1"}
    assert json.loads(json.dumps(definition)) == definition


# What is told of it


def test_values_of_arguments_are_hidden_the_longest_first_and_words_of_three_letters_are_not(
    context: Path,
) -> None:
    recipe = _read(context, arguments={"A": "pass", "B": "password", "C": "yes"})
    assert recipe.redact("password, pass: yes") == "***, ***: yes"


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    """Make a function the engine's builder, or one that fails so."""

    def use(does: Callable[..., object] | Exception) -> None:
        def fail(*_: object) -> None:
            assert isinstance(does, Exception)
            raise does

        monkeypatch.setattr(module, "has_buildx", lambda: False)
        monkeypatch.setattr(module._Build, "classic", fail if isinstance(does, Exception) else does)

    return use


def _built(recipe: Recipe) -> None:
    build(NO_ENGINE, recipe, "benchjobs/x:1", 60, lambda: None)


def test_a_build_that_fails_shows_its_last_lines_without_values_colours_and_blanks(
    context: Path, builder: Builder
) -> None:
    def fail(one: Any, *_: object) -> None:
        for number in range(40):
            one.take(f"\x1b[31mline {number} of hunter2\x1b[0m\n\n")
        raise module._Failed("exit 1 with hunter2")

    builder(fail)
    with pytest.raises(ImageBuildFailed) as caught:
        _built(_read(context, arguments={"P": "hunter2"}))
    first, *lines = str(caught.value).splitlines()
    assert first == f"{context / 'Dockerfile'}: the build failed: exit 1 with ***"
    assert lines == [f"line {number} of ***" for number in range(10, 40)]


def test_a_build_without_a_base_image_gets_the_hint(context: Path, builder: Builder) -> None:
    builder(module._Failed("no such image"))
    (context / "Dockerfile").write_text("ARG A\nFROM $A\n")
    with pytest.raises(ImageBuildFailed, match=r"no such image\nFROM \$A: A has no value"):
        _built(_read(context))


def test_a_full_disk_and_a_timeout_are_told_apart_from_a_build_that_fails(
    context: Path, builder: Builder
) -> None:
    builder(module._Failed("write /x: no space left on device"))
    with pytest.raises(DiskFull, match="disk is full: write /x"):
        _built(_read(context))
    builder(TimeoutError())
    with pytest.raises(ImageBuildFailed, match="did not end within 60 s"):
        _built(_read(context))


def test_a_build_whose_connection_broke_is_made_again_with_the_whole_context(
    context: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.0,) * 4)
    sent: list[bytes] = []
    ok = 2

    def break_off(_: object, archive: Any, _engine: object) -> None:
        sent.append(archive.read())
        if len(sent) <= ok:
            raise EngineLost("went away")

    builder(break_off)
    _built(_read(context))
    assert len(set(sent)) == 1
    assert (len(sent), bool(sent[0])) == (3, True)
    sent.clear()
    ok = 9
    with pytest.raises(EngineLost):
        _built(_read(context))
    assert len(sent) == 5


def test_a_build_has_until_its_timeout(context: Path, builder: Builder) -> None:
    def look(one: Any, *_: object) -> None:
        left.append(one.deadline - time.monotonic())
        tags.append(one.tag)

    left: list[float] = []
    tags: list[str] = []
    builder(look)
    _built(_read(context))
    assert 50 < left[0] <= 60
    assert tags == ["benchjobs/x:1"]


def _noted(script: str, deadline: float, check: Callable[[], object] = lambda: None) -> list[str]:
    recipe = Recipe(Path("Dockerfile"), Path(), TEXT, {}, {}, {}, ())
    one = module._Build(recipe, "x", time.monotonic() + deadline, check)
    one.run(["/bin/sh", "-c", script], Path("/"), os.environ)
    one.take("\n")
    return [*one.tail]


def test_a_builders_output_is_taken_line_by_line_with_the_last_one() -> None:
    assert _noted("printf 'a\\nb'; sleep 0.05; printf 'c\\n\\nd'", 20) == ["a", "bc", "d"]


def test_a_builder_that_prints_or_works_for_too_long_is_given_up() -> None:
    for script in ("echo x; sleep 30", "exec >&-; sleep 30"):
        with pytest.raises(TimeoutError):
            _noted(script, 0.1)


def test_a_builder_is_given_up_when_its_trial_is() -> None:
    class GivenUp(Exception):
        pass

    def check() -> None:
        if time.monotonic() > until:
            raise GivenUp

    for script in ("sleep 30", "exec >&-; sleep 30"):
        until = time.monotonic() + 0.1
        with pytest.raises(GivenUp):
            _noted(script, 20, check)


def test_what_the_engine_tells_in_pieces_is_shown_in_lines_and_hides_a_value_in_two_of_them(
    context: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hear(*_: object, **__: object) -> Iterator[dict[str, str]]:
        yield {"status": "Pulling"}
        for piece in ("Step 1", " : RUN\n", "hun", "ter2 is", " bad\nand", " more\n", "the ", "end"):
            yield {"stream": piece}
        yield {"error": "exit 1"}

    monkeypatch.setattr(module, "has_buildx", lambda: False)
    monkeypatch.setattr(module, "hear", hear)
    with pytest.raises(ImageBuildFailed) as caught:
        _built(_read(context, arguments={"P": "hunter2"}))
    assert str(caught.value).splitlines()[1:] == [
        "Pulling", "Step 1 : RUN", "*** is bad", "and more", "the end",
    ]  # fmt: skip


@pytest.mark.parametrize(("detail", "tries"), [({"code": 7}, 1), ({}, 5)])
def test_a_build_is_tried_again_unless_a_command_of_its_own_ended_it(
    context: Path, monkeypatch: pytest.MonkeyPatch, detail: dict[str, int], tries: int
) -> None:
    built: list[int] = []

    def hear(*_: object, **__: object) -> Iterator[dict[str, object]]:
        built.append(1)
        yield {"stream": "Step 1\n"}
        yield {"error": "no such thing", "errorDetail": detail}

    monkeypatch.setattr(module, "has_buildx", lambda: False)
    monkeypatch.setattr(module, "hear", hear)
    monkeypatch.setattr(module, "rest", lambda *_: None)
    with pytest.raises(ImageBuildFailed) as caught:
        _built(_read(context))
    assert (len(built), str(caught.value).count("Step 1")) == (tries, 1)
