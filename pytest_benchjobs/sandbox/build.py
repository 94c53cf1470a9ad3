"""Building an image from a Dockerfile, under a name made of everything that goes into it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import re
import subprocess
import tarfile
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

import docker.errors
from docker.utils.build import exclude_paths

from ..model.environ import host_environment
from ..model.errors import EngineLost, ImageBuildFailed
from .dockerfile import base_images, substitute
from .engine import LABEL, Engine
from .library import BROKEN

_SPOOL = 32 * 1024 * 1024
_CHUNK = 256 * 1024
_KEPT_LINES = 30
_OWN_NAME = ".benchjobs.Dockerfile"
_COMMON_NAMES = ("environment", "env", "docker", ".")
_SHORTEST_SECRET = 4
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

Log = Callable[[str], object]


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """A Dockerfile after mapping, its context and arguments: all that a build depends on, but for its base images."""

    dockerfile: Path
    context: Path
    text: str
    original: str
    substituted: Mapping[str, str]
    arguments: Mapping[str, str]
    paths: tuple[str, ...]
    """What of the context goes to the engine, relative to it, sorted."""

    @classmethod
    def read(
        cls, dockerfile: Path, context: Path, image_map: Mapping[str, str], arguments: Mapping[str, str]
    ) -> Recipe:
        """Read it from disk.

        Raises:
            ImageBuildFailed: the Dockerfile or the context cannot be read.

        """
        try:
            original = dockerfile.read_text("utf-8")
            ignore = context / ".dockerignore"
            patterns = ignore.read_text("utf-8").splitlines() if ignore.is_file() else []
            patterns = [line.strip() for line in patterns if line.strip() and not line.startswith("#")]
            paths = exclude_paths(str(context), patterns, dockerfile=_inside(dockerfile, context))
        except (OSError, UnicodeDecodeError) as error:
            raise ImageBuildFailed(f"{dockerfile}: cannot be read: {error}") from error
        text, substituted = substitute(original, image_map)
        return cls(dockerfile, context, text, original, substituted, arguments, tuple(sorted(paths)))

    @property
    def bases(self) -> tuple[str, ...]:
        """Images it starts from, after mapping."""
        return base_images(self.text)

    @property
    def name(self) -> str:
        """Where the engine finds the Dockerfile in the context."""
        inside = _inside(self.dockerfile, self.context)
        return inside if inside is not None and self.text == self.original else _OWN_NAME

    def tag(self, bases: Mapping[str, str]) -> str:
        """`benchjobs/<name>:<hash>`; the same for the same ingredients, anywhere."""
        digest = hashlib.sha256()

        def add(*parts: str | bytes) -> None:
            for part in parts:
                data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
                digest.update(len(data).to_bytes(8, "big") + data)

        add("v1", self.text)
        for table in (self.arguments, bases):
            for name, value in sorted(table.items()):
                add(name, value)
            add("")
        for relative in self.paths:
            path = self.context / relative
            add(relative)
            if path.is_symlink():
                add("link", str(path.readlink()))
            elif path.is_file():
                add(oct(path.stat().st_mode & 0o777), _file_digest(path))
        return f"benchjobs/{self._slug()}:{digest.hexdigest()[:20]}"

    def archive(self) -> IO[bytes]:
        """The context as the engine wants it. Close it after use."""
        spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL)  # noqa: SIM115  the caller closes it
        try:
            with tarfile.open(fileobj=spool, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for relative in self.paths:
                    path = self.context / relative
                    if relative in (".dockerignore", _OWN_NAME) or not (path.is_symlink() or path.exists()):
                        continue
                    tar.add(path, relative, recursive=False, filter=_as_root)
                # What we excluded must not be looked for again, and our own files must not be copied into the image.
                ours = [".dockerignore"]
                if self.name == _OWN_NAME:
                    _add_text(tar, _OWN_NAME, self.text)
                    ours.append(_OWN_NAME)
                if ".dockerignore" not in self.paths:
                    _add_text(tar, ".dockerignore", "".join(f"{name}\n" for name in ours))
                else:
                    text = (self.context / ".dockerignore").read_text("utf-8")
                    _add_text(tar, ".dockerignore", f"{text}\n{_OWN_NAME}\n")
            spool.seek(0)
        except OSError as error:
            spool.close()
            raise ImageBuildFailed(f"{self.context}: the build context cannot be read: {error}") from error
        return spool

    def redact(self, text: str) -> str:
        """The same without the values of build arguments."""
        for value in sorted(self.arguments.values(), key=len, reverse=True):
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, "***")
        return text

    def _slug(self) -> str:
        folder = self.context.resolve()
        name = folder.parent.name if folder.name in _COMMON_NAMES else folder.name
        return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "image"


def build(engine: Engine, recipe: Recipe, tag: str, timeout: float, log: Log) -> None:
    """Build `recipe` and name it `tag`; what is printed goes to `log`. Seconds.

    Raises:
        ImageBuildFailed: with the last lines of output, or because it took too long.

    """
    tail: deque[str] = deque(maxlen=_KEPT_LINES)

    def note(text: str) -> None:
        clean = recipe.redact(_ESCAPE.sub("", text))
        log(clean)
        tail.extend(line for line in clean.splitlines() if line.strip())

    with recipe.archive() as archive:
        builder = _buildx if _has_buildx() else _classic
        try:
            builder(engine, recipe, tag, archive, time.monotonic() + timeout, note)
        except TimeoutError:
            reason = f"did not end within {timeout:g} s"
        except _Failed as error:
            reason = recipe.redact(str(error))
        else:
            return
    shown = "\n".join(tail)
    raise ImageBuildFailed(f"{recipe.dockerfile}: the build failed: {reason}\n{shown}".rstrip())


class _Failed(Exception):
    """The builder's own words."""


def _classic(
    engine: Engine, recipe: Recipe, tag: str, archive: IO[bytes], deadline: float, note: Log
) -> None:
    """The engine's own builder. It gives up when we hang up."""
    client = engine.client
    output: Iterator[dict[str, object]] | None = None
    try:
        output = client.build(
            fileobj=archive,
            custom_context=True,
            dockerfile=recipe.name,
            tag=tag,
            buildargs=dict(recipe.arguments),
            labels={LABEL + "image": "1"},
            rm=True,
            forcerm=True,
            decode=True,
            timeout=max(1, int(deadline - time.monotonic())),
        )
        for line in output:
            if "error" in line:
                raise _Failed(str(line["error"]).strip())
            note(str(line.get("stream") or line.get("status") or ""))
            if time.monotonic() > deadline:
                raise TimeoutError
    except docker.errors.APIError as error:
        raise _Failed(str(error.explanation or error)) from error
    except BROKEN as error:
        if time.monotonic() >= deadline - 1:
            raise TimeoutError from error
        raise EngineLost(f"the Docker Engine went away during a build: {error}") from error
    finally:
        if output is not None:
            output.close()  # type: ignore[attr-defined]


def _buildx(engine: Engine, recipe: Recipe, tag: str, archive: IO[bytes], deadline: float, note: Log) -> None:
    """BuildKit, which the engine offers to its command line only. Values go by environment, not by `ps`."""
    argv = ["docker", "buildx", "build", "--load", "--progress=plain", "--tag", tag, "--file", recipe.name]
    argv += ["--label", f"{LABEL}image=1"]
    for name in recipe.arguments:
        argv += ["--build-arg", name]
    process = subprocess.Popen(
        [*argv, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**host_environment(), **recipe.arguments, "DOCKER_HOST": engine.host},
    )
    timer = threading.Timer(max(0.0, deadline - time.monotonic()), process.kill)
    timer.start()
    feeder = threading.Thread(target=_feed, args=(process, archive), name="bench-context", daemon=True)
    feeder.start()
    try:
        with process:
            if process.stdout is None:
                raise AssertionError("unreachable")
            for line in process.stdout:
                note(line.decode("utf-8", "replace"))
    finally:
        timer.cancel()
        if process.poll() is None:
            process.kill()
        feeder.join()
    if process.returncode != 0:
        if time.monotonic() >= deadline:
            raise TimeoutError
        raise _Failed(f"docker buildx exited with status {process.returncode}")


def _feed(process: subprocess.Popen[bytes], archive: IO[bytes]) -> None:
    if process.stdin is None:
        return
    with contextlib.suppress(OSError), process.stdin as pipe:
        while chunk := archive.read(_CHUNK):
            pipe.write(chunk)


@functools.cache
def _has_buildx() -> bool:
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


def _file_digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    member = tarfile.TarInfo(name)
    member.size = len(data)
    member.mode = 0o644
    tar.addfile(member, io.BytesIO(data))
