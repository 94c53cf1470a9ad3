"""Putting back the programs that grading depends on, after an agent had the container to itself.

The engine knows which paths differ from the image, and hands out the image's own files from a container of it that
never ran. Nothing inside the sandbox is asked or trusted.

Adding programs is what tasks are about (`apt-get install python3`), so additions stay, unless they get in front of a
program that the image has (a `bash` in /usr/local/bin), or are picked up by every program there is (ld.so.preload).
"""

from __future__ import annotations

import contextlib
import io
import posixpath
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence

import docker
import docker.errors
from docker.types import LogConfig

from .images import ResolvedImage

_CHANGED, _ADDED, _DELETED = 0, 1, 2
_PROGRAM = re.compile(
    r"(ba|da|a|z)?sh|busybox|env|python[0-9.]*|cat|grep|egrep|sed|awk|mawk|gawk|test|\[|kill|sleep|"
    r"head|tail|sort|wc|cut|tr|cmp|diff|ls|rm|mv|cp|mkdir|chmod|tee|xargs|find|timeout"
)
_LIBRARY = re.compile(
    r"ld-[^/]*\.so[^/]*|ld-linux[^/]*|ld-musl[^/]*|libc[.-][^/]*so[^/]*|libc\.so\.6|libpython[^/]*"
)
_LIBRARY_DIRECTORY = re.compile(r"/(usr/)?(local/)?lib[^/]*(/[^/]+-linux-[^/]+)?")
_TOP_LINK = re.compile(r"/(bin|sbin|lib[^/]*)")
_HOOK = re.compile(r"(site|user)customize\.py")
_PRELOAD = "/etc/ld.so.preload"
_LINK_MODE, _DIRECTORY_MODE = 1 << 27, 1 << 31
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def restore(
    client: docker.APIClient, container: str, image: ResolvedImage, labels: Mapping[str, str]
) -> tuple[str, ...]:
    """Put back what was changed, deleted or shadowed; returns those paths. Costs one call when nothing was.

    `labels` go on the container that is made for it.

    Raises:
        docker.errors.APIError: the engine refuses.

    """
    changes = {str(change["Path"]): int(change["Kind"]) for change in client.diff(container) or []}
    directories = _search_path(image)
    suspects = [path for path in sorted(changes) if _protected(path, directories)]
    ways = _ways(directories)
    lost = [path for path in sorted(changes) if path in ways and not _is_directory(client, container, path)]
    if not suspects and not lost:
        return ()
    restored, hooks = [], []
    with _pristine(client, image, labels) as original, io.BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for path in suspects:
                if changes[path] == _ADDED and _picked_up(path):
                    _add_empty(tar, path)
                    hooks.append(path)
                elif _put_back(client, original, tar, path, changes[path], directories):
                    restored.append(path)
        for path in lost:
            if _put_directory_back(client, original, container, path):
                restored.insert(0, path)
        hostile = [path for path in hooks if not _of_debian(client, container, path)]
        if buffer.tell():
            client.put_archive(container, "/", buffer.getvalue())
    return tuple(restored + hostile)


def _put_back(
    client: docker.APIClient,
    original: str,
    tar: tarfile.TarFile,
    path: str,
    kind: int,
    directories: Sequence[str],
) -> bool:
    """Add to `tar` what belongs at `path`; whether anything does."""
    if kind != _ADDED or _TOP_LINK.fullmatch(path):
        # The engine calls a directory changed when anything in it is; only a link can have been replaced by it.
        return _copy(client, original, path, tar, only_link=bool(_TOP_LINK.fullmatch(path)))
    name = posixpath.basename(path)
    for directory in directories:
        elsewhere = posixpath.join(directory, name)
        if elsewhere != path and _exists(client, original, elsewhere):
            member = tarfile.TarInfo(path.lstrip("/"))
            member.type, member.linkname, member.mode = tarfile.SYMTYPE, elsewhere, 0o777
            tar.addfile(member)
            return True
    return False


def _ways(directories: Sequence[str]) -> frozenset[str]:
    """Directories on the way to programs and libraries, themselves included."""
    ends = (*directories, "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc")
    parents = (posixpath.dirname(end) for end in ends)
    return frozenset(path for path in (*ends, *parents) if path != "/")


def _is_directory(client: docker.APIClient, container: str, path: str) -> bool:
    """Whether it is one, or a link of the top level, which is compared with the image's own anyway."""
    try:
        chunks, stat = client.get_archive(container, path)
    except docker.errors.NotFound:
        return False
    chunks.close()
    return bool(stat["mode"] & _DIRECTORY_MODE) or _TOP_LINK.fullmatch(path) is not None


def _put_directory_back(client: docker.APIClient, original: str, container: str, path: str) -> bool:
    """The whole directory as it was, if the image has it; whatever stands in its place goes."""
    try:
        chunks, stat = client.get_archive(original, path)
    except docker.errors.NotFound:
        return False
    with contextlib.closing(chunks):
        if not stat["mode"] & _DIRECTORY_MODE:
            return False
        with io.BytesIO() as buffer:
            with tarfile.open(fileobj=buffer, mode="w") as tar:
                _add_empty(tar, path)
            client.put_archive(container, "/", buffer.getvalue())
        client.put_archive(container, posixpath.dirname(path), chunks)
    return True


def _picked_up(path: str) -> bool:
    """Whether programs run or load it without being told to."""
    return path == _PRELOAD or _HOOK.fullmatch(posixpath.basename(path)) is not None


def _of_debian(client: docker.APIClient, container: str, path: str) -> bool:
    """Whether it is the link that Debian's python3 brings along. Emptied like any other, but nobody's misdeed."""
    try:
        chunks, stat = client.get_archive(container, path)
    except docker.errors.NotFound:
        return False
    chunks.close()
    return bool(stat["mode"] & _LINK_MODE) and str(stat["linkTarget"]).startswith("/etc/python3")


def _protected(path: str, directories: Sequence[str]) -> bool:
    directory, name = posixpath.split(path)
    return (
        path == _PRELOAD
        or (directory in directories and _PROGRAM.fullmatch(name) is not None)
        or (_LIBRARY_DIRECTORY.fullmatch(directory) is not None and _LIBRARY.fullmatch(name) is not None)
        or _TOP_LINK.fullmatch(path) is not None
        or (
            _HOOK.fullmatch(name) is not None and "/python" in directory and not directory.startswith("/etc/")
        )
    )


def _search_path(image: ResolvedImage) -> tuple[str, ...]:
    """Directories programs are found in, by all their names: `/bin` is a link to `/usr/bin` in most images."""
    listed = image.env.get("PATH", DEFAULT_PATH).split(":")
    return tuple(
        dict.fromkeys(d.rstrip("/") for d in (*listed, *DEFAULT_PATH.split(":")) if d.startswith("/"))
    )


@contextlib.contextmanager
def _pristine(client: docker.APIClient, image: ResolvedImage, labels: Mapping[str, str]) -> Iterator[str]:
    """A container of the image that never runs."""
    created = client.create_container(
        image.id,
        ["true"],
        labels=dict(labels),
        host_config=client.create_host_config(network_mode="none", log_config=LogConfig(type="none")),
    )["Id"]
    try:
        yield created
    finally:
        client.remove_container(created, force=True, v=True)


def _exists(client: docker.APIClient, container: str, path: str) -> bool:
    try:
        chunks, _ = client.get_archive(container, path)
    except docker.errors.NotFound:
        return False
    chunks.close()
    return True


def _copy(
    client: docker.APIClient, container: str, path: str, tar: tarfile.TarFile, *, only_link: bool
) -> bool:
    try:
        chunks, stat = client.get_archive(container, path)
    except docker.errors.NotFound:
        return False
    with contextlib.closing(chunks):
        if only_link and not stat["mode"] & _LINK_MODE:
            return False
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as source:
            member = next((m for m in source if m.isreg() or m.issym()), None)
            if member is None:
                return False
            content = source.extractfile(member) if member.isreg() else None
            member.name = path.lstrip("/")
            tar.addfile(member, content)
    return True


def _add_empty(tar: tarfile.TarFile, path: str) -> None:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.mode = 0o644
    tar.addfile(member)
