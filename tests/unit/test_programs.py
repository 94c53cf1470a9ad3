"""What is put into a container before grading, by an engine that only takes archives."""

from __future__ import annotations

import tarfile
from typing import IO, Any, cast

import docker
import pytest

from pytest_benchjobs.model.result import ImageRecord
from pytest_benchjobs.sandbox.docker.images import ResolvedImage
from pytest_benchjobs.sandbox.docker.programs import restore
from pytest_benchjobs.sandbox.loading import Places, Restoring

IMAGE = ResolvedImage("sha256:1", ImageRecord(reference="x", id="sha256:1"), "/app", "", (), {})
ADDED = 1


class Engine:
    """Whatever else is asked of it is an `AttributeError`."""

    def __init__(self) -> None:
        self.put: dict[str, bytes] = {}

    def put_archive(self, container: str, path: str, archive: IO[bytes]) -> None:
        assert (container, path) == ("c", "/")
        with tarfile.open(fileobj=archive) as tar:
            self.put |= {member.name: member.type for member in tar}


@pytest.mark.parametrize(
    ("path", "becomes"),
    [("/etc/ld.so.preload", tarfile.REGTYPE), ("/conftest.py", tarfile.DIRTYPE), ("/app/conftest.py", None)],
)
def test_one_added_file_is_put_out_of_the_way_though_nothing_else_was_touched(
    path: str, becomes: bytes | None
) -> None:
    engine = Engine()
    places = Places.of({}, "/app", Restoring())
    undone = restore(cast("docker.APIClient", cast("Any", engine)), "c", IMAGE, {}, places, {path: ADDED})
    assert undone == (() if becomes is None else (path,))
    assert engine.put == ({} if becomes is None else {path.lstrip("/"): becomes})
