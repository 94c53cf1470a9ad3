"""Building an image from a Dockerfile, under a name made of everything that goes into it."""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import os
import re
import secrets
import stat
import subprocess
import tarfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import docker.errors

from ...model.environ import environment_without_keys
from ...model.errors import DiskFull, EngineLost, ImageBuildFailed
from ...system.temporary import temporary_directory
from ..archive import archive_of, as_root
from ..host_command import LocalCommand
from ..protocol import ImageRequest
from .answers import PAUSES
from .context import BadPattern, Context, Ignored
from .dockerfile import AUTOMATIC, base_images, copied, references, substitute
from .engine import LABEL, Engine
from .library import BROKEN
from .pulling import Check, hear, rest
from .words import BUILDER_GONE, DISK_FULL

_KEPT_LINES = 30
_LONGEST_LINE = 65_536
_NAMED = 5
_WRONG = 400
_OWN_NAME = ".benchjobs.Dockerfile"
_IGNORING = ".dockerignore"
_COMMON_NAMES = ("environment", "env", "docker", ".")
_SHORTEST_SECRET = 4
_TARGET = "image"
# Python 3.11.0 to 3.11.3 know no filters.
_AS_WRITTEN: dict[str, Any] = {"filter": "fully_trusted"} if hasattr(tarfile, "data_filter") else {}
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """A Dockerfile after mapping, its context and arguments: all that a build depends on, but for its base images."""

    dockerfile: Path
    context: Path
    text: str
    substituted: Mapping[str, str]
    arguments: Mapping[str, str]
    variables: Mapping[str, str]
    """Variables that a `FROM` may name: the arguments, and the platform."""
    paths: tuple[str, ...]
    """Paths of the context that go to the engine, relative to it, sorted."""
    ignoring: Path | None = None
    """File with patterns of what stays here."""
    left_out: tuple[str, ...] = ()
    """Those that stay here, as an agent may not see them."""

    @classmethod
    def read(cls, request: ImageRequest, platform: Callable[[], Mapping[str, str]]) -> Recipe:
        """Read that of an environment from disk. `platform` has values of `AUTOMATIC`; asked only where they are named.

        It is an `ImageBuildFailed` if something cannot be read, or a hidden path is copied.
        """
        environment, arguments = request.environment, request.arguments
        dockerfile = environment.dockerfile
        assert dockerfile is not None  # noqa: S101  callers have looked
        context = environment.context or dockerfile.parent
        # A file of patterns of this Dockerfile alone goes before that of all.
        both = dockerfile.with_name(f"{dockerfile.name}{_IGNORING}"), context / _IGNORING
        ignoring = next((path for path in both if path.is_file()), None)
        try:
            original = _text(dockerfile)
            ignored = Ignored("" if ignoring is None else _text(ignoring))
            found = Context.read(context, _inside(dockerfile, context), ignored, environment.hidden)
        except OSError as error:
            raise ImageBuildFailed(f"{dockerfile}: cannot be read: {error}") from error
        except BadPattern as error:
            raise ImageBuildFailed(f"{ignoring}:{error}") from error
        variables = {**(platform() if any(name in original for name in AUTOMATIC) else {}), **arguments}
        if (fault := found.fault(context, copied(original, arguments))) is not None:
            raise ImageBuildFailed(f"{dockerfile}:{fault}")
        text, substituted = substitute(original, request.image_map, variables)
        given = arguments, variables, found.paths, ignoring, found.left_out
        recipe = cls(dockerfile, context, text, substituted, *given)
        if recipe.name != _OWN_NAME:
            return recipe
        # Then the Dockerfile is a file like any other.
        inside = _inside(dockerfile, context)
        paths = tuple(path for path in found.paths if path != inside or path not in ignored)
        return dataclasses.replace(recipe, paths=paths)

    @property
    def bases(self) -> tuple[str, ...]:
        """Images it starts from, after mapping."""
        return base_images(self.text, self.variables)

    @property
    def note(self) -> str | None:
        """A sentence on what was left out, if anything was."""
        if not self.left_out:
            return None
        more = len(self.left_out) - _NAMED
        named = ", ".join(self.left_out[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"left out of the build context {self.context}, since no agent may see it: {named}"

    @property
    def hint(self) -> str:
        """Advice about images that are named by a variable without a value; empty where there are none."""
        unset = {
            name: found.written
            for found in references(self.text, self.variables)
            if not found.complete
            for name in found.unset
            if name not in AUTOMATIC
        }
        return "".join(
            f"\nFROM {written}: {name} has no value, so its image cannot be found, pulled or mapped; set it "
            f"with build_args or --bench-build-arg {name}=..."
            for name, written in unset.items()
        )

    @property
    def name(self) -> str:
        """Path at which the engine finds the Dockerfile in the context."""
        inside = _inside(self.dockerfile, self.context)
        as_it_is = not self.substituted and self.ignoring in (None, self.context / _IGNORING)
        return inside if inside in self.paths and as_it_is else _OWN_NAME

    def tag(self, bases: Mapping[str, str]) -> str:
        """`benchjobs/<name>:<hash>`; the same for the same ingredients, anywhere."""
        digest = hashlib.sha256()

        def add(*parts: str | bytes) -> None:
            for part in parts:
                data = os.fsencode(part) if isinstance(part, str) else part
                digest.update(len(data).to_bytes(8, "big") + data)

        add("v3", self.text, b"" if self.ignoring is None else self.ignoring.read_bytes())
        for table in (self.arguments, bases):
            for name, value in sorted(table.items()):
                add(name, value)
            add("")
        with self._reading():
            for relative in self.paths:
                add(relative, *_described(self.context / relative))
        folder = self.context.resolve()
        name = folder.parent.name if folder.name in _COMMON_NAMES else folder.name
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "image"
        return f"benchjobs/{slug}:{digest.hexdigest()[:20]}"

    def archive(self) -> IO[bytes]:
        """The context as the engine wants it. Close it after use."""
        with self._reading():
            return archive_of(self._fill)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ImageBuildFailed(f"{self.context}: the build context cannot be read: {error}") from error

    def _fill(self, tar: tarfile.TarFile) -> None:
        for relative in self.paths:
            path = self.context / relative
            if relative not in (_IGNORING, _OWN_NAME) and (path.is_symlink() or path.exists()):
                tar.add(path, relative, recursive=False, filter=as_root)
        if self.name == _OWN_NAME:
            _add_bytes(tar, _OWN_NAME, os.fsencode(self.text))
        # It tells whether a Dockerfile is copied into the image with the rest, and our own files must not be.
        given = b"" if self.ignoring is None else self.ignoring.read_bytes()
        hidden = [*(() if _IGNORING in self.paths else (_IGNORING,)), *({self.name} & {_OWN_NAME})]
        _add_bytes(tar, _IGNORING, b"\n".join((given, *map(str.encode, hidden))))

    def redact(self, text: str) -> str:
        """The same without the values of build arguments."""
        for value in sorted(self.arguments.values(), key=len, reverse=True):
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, "***")
        return text


def build(engine: Engine, recipe: Recipe, tag: str, timeout: float, check: Check) -> None:
    """Build `recipe` and name it `tag`. Seconds. What `check` raises breaks it off.

    A failed build is an `ImageBuildFailed` with the last lines of output, or a `DiskFull`.
    """
    one = _Build(recipe, tag, time.monotonic() + timeout, check)
    if has_buildx():
        one.complete(lambda archive: one.buildx(archive, engine.environment(), "--load"), timeout)
    else:
        one.complete(lambda archive: one.classic(archive, engine), timeout)


def build_and_push(
    variables: Mapping[str, str], recipe: Recipe, name: str, platform: str, timeout: float, check: Check
) -> None:
    """Build `recipe` for a platform by the builder that `variables` name to buildx, and push it as `name`.

    Raises what `build` does, and EngineLost: the builder went away, also when it was tried again.
    """
    one = _Build(recipe, name, time.monotonic() + timeout, check)
    options = "--push", "--set", f"{_TARGET}.platform={platform}"
    one.complete(lambda archive: one.buildx(archive, variables, *options), timeout)


class _Failed(Exception):
    """The builder's own words."""


class _Unexplained(_Failed):
    """Words of the engine, of a build that no command of its own ended: the next try may go on."""


@dataclasses.dataclass
class _Build:
    """A build by one builder or the other, and the last lines that it printed."""

    recipe: Recipe
    tag: str
    deadline: float
    check: Check
    tail: deque[str] = dataclasses.field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    _part: str = ""

    def complete(self, work: Callable[[IO[bytes]], None], timeout: float) -> None:
        """Build by `work`, which is given the context, within `timeout` seconds."""
        recipe = self.recipe
        try:
            with recipe.archive() as archive:
                for pause in (*PAUSES, None):
                    archive.seek(0)
                    self.tail.clear()
                    try:
                        return work(archive)
                    except (EngineLost, _Unexplained):
                        # Steps that were done come from the builder's cache.
                        if pause is None or time.monotonic() > self.deadline:
                            raise
                        rest(pause, self.check)
                    finally:
                        self.take("\n")
        except TimeoutError:
            reason = f"did not end within {timeout:g} s"
        except _Failed as error:
            reason = recipe.redact(str(error))
        if reason in DISK_FULL:
            raise DiskFull(
                f"{recipe.dockerfile}: the build failed, the Docker Engine's disk is full: {reason}"
            )
        shown = "\n".join(self.tail)
        raise ImageBuildFailed(
            f"{recipe.dockerfile}: the build failed: {reason}\n{shown}".rstrip() + recipe.hint
        )

    def classic(self, archive: IO[bytes], engine: Engine) -> None:
        """Use the engine's own builder. It gives up when we hang up."""
        lines = hear(
            engine,
            lambda client: client.build(
                fileobj=archive,
                custom_context=True,
                dockerfile=self.recipe.name,
                tag=self.tag,
                buildargs=dict(self.recipe.arguments),
                labels={LABEL + "image": "1"},
                rm=True,
                forcerm=True,
                decode=True,
            ),
            self.check,
            deadline=self.deadline,
        )
        try:
            with contextlib.closing(lines):
                for line in lines:
                    if "error" in line:
                        # A command that failed has its exit status there. Anything else may be the engine's.
                        kind = _Failed if (line.get("errorDetail") or {}).get("code") else _Unexplained
                        raise kind(str(line["error"]).strip())
                    if "stream" in line:
                        self.take(line["stream"])
                    else:
                        self._note(str(line.get("status") or ""))
        except docker.errors.APIError as error:
            # What is wrong with a Dockerfile is a 400.
            kind = _Failed if error.status_code == _WRONG else _Unexplained
            raise kind(str(error.explanation or error)) from error
        except BROKEN as error:
            raise EngineLost(f"the Docker Engine went away during a build: {error}") from error

    def buildx(self, archive: IO[bytes], variables: Mapping[str, str], *options: str) -> None:
        """Use BuildKit by its command line, to which `variables` name an engine or a builder.

        Build arguments go by a file. On the command line everybody could read them, and in the environment a `PATH`,
        `DOCKER_CONFIG` or `LD_PRELOAD` of a task would run its code here.
        """
        with temporary_directory("build") as directory:
            # BuildKit takes a file as one of an earlier build where this name, path, size and time are equal.
            context = directory / secrets.token_hex(16)
            with tarfile.open(fileobj=archive) as tar:
                tar.extractall(context, **_AS_WRITTEN)  # noqa: S202  we wrote it ourselves
            definition = json.dumps(_definition(self.recipe, self.tag, context.name))
            (directory / "definition.json").write_text(definition, "utf-8")
            status = self.run(
                [
                    "docker",
                    "buildx",
                    "bake",
                    *options,
                    "--progress=plain",
                    "--file",
                    "definition.json",
                    _TARGET,
                ],
                directory,
                {**environment_without_keys(), **variables},
            )
            if status != 0:
                self.take("\n")
                if self.tail and self.tail[-1].startswith("ERROR: ") and self.tail[-1] in BUILDER_GONE:
                    raise EngineLost(f"BuildKit went away during a build: {self.tail[-1]}")
                raise _Failed(f"docker buildx exited with status {status}")

    def run(self, argv: Sequence[str], directory: Path, env: Mapping[str, str]) -> int | None:
        """Run a builder, note what it prints, and return its exit status; a `TimeoutError` at the deadline."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        command = LocalCommand.start(argv, directory, env, lambda data: self.take(decoder.decode(data)))
        result = command.run_checked(self.deadline, self.check)
        if result.timed_out:
            raise TimeoutError
        return result.exit_status

    def take(self, text: str) -> None:
        """Note whole lines of what is printed a word, or half of a secret, at a time."""
        *whole, self._part = f"{self._part}{text}".split("\n")
        if len(self._part) > _LONGEST_LINE:
            whole, self._part = [*whole, self._part], ""
        if whole:
            self._note("\n".join(whole))

    def _note(self, text: str) -> None:
        clean = self.recipe.redact(_ESCAPE.sub("", text))
        self.tail.extend(line for line in clean.splitlines() if line.strip())


def _definition(recipe: Recipe, tag: str, context: str) -> dict[str, object]:
    """Return the build as `docker buildx bake` reads it. A `${` in a value would be a template."""

    def plain(value: str) -> str:
        return value.replace("${", "$${").replace("%{", "%%{")

    target = {
        "context": context,
        "dockerfile": plain(recipe.name),
        "args": {name: plain(value) for name, value in recipe.arguments.items()},
        "tags": [tag],
        "labels": {f"{LABEL}image": "1"},
    }
    return {"target": {_TARGET: target}}


@functools.cache
def has_buildx() -> bool:
    """Return True if `docker buildx` is here, which takes no engine."""
    try:
        return not subprocess.run(
            ["docker", "buildx", "version"], capture_output=True, check=False, timeout=20
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def _inside(dockerfile: Path, context: Path) -> str | None:
    """The Dockerfile's path in the context; None when it is outside."""
    try:
        return dockerfile.resolve().relative_to(context.resolve()).as_posix()
    except ValueError:
        return None


def _described(path: Path) -> Iterator[str | bytes]:
    """Yield what an image has of a path: its kind, its mode, and its content."""
    mode = path.lstat().st_mode
    yield oct(mode)
    if stat.S_ISLNK(mode):
        yield str(path.readlink())
    elif stat.S_ISREG(mode):
        with path.open("rb") as file:
            yield hashlib.file_digest(file, "sha256").digest()


def _text(path: Path) -> str:
    """Return the text of a file in any encoding, as Docker reads it: without a mark of its order of bytes."""
    return os.fsdecode(path.read_bytes()).removeprefix("\ufeff")


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    member.mode = 0o644
    tar.addfile(member, io.BytesIO(data))
