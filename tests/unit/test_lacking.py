"""What an engine cannot promise, by what it says of itself."""

from __future__ import annotations

import pytest

from pytest_benchjobs.sandbox.docker.dialects import DOCKER, PODMAN, Dialect
from pytest_benchjobs.sandbox.docker.resources import lacking
from pytest_benchjobs.sandbox.protocol import Promise

_LIMITS = {"MemoryLimit": True, "CpuCfsQuota": True, "PidsLimit": True, "CgroupDriver": "cgroupfs"}
_ALL = {Promise.MEMORY, Promise.CPUS, Promise.PIDS}
_GVISOR = {Promise.OUT_OF_MEMORY, Promise.PIDS, Promise.DAEMONS, Promise.EVIDENCE, Promise.SERVICES}
_PODMAN = {Promise.OUT_OF_MEMORY, Promise.SERVICES}


@pytest.mark.parametrize(
    ("info", "dialect", "lacks"),
    [
        ({}, DOCKER, set()),
        ({"Rootless": False, "CgroupVersion": "1"}, PODMAN, _PODMAN),
        ({"Rootless": True, "CgroupVersion": "1"}, PODMAN, _ALL | _PODMAN),
        ({"Rootless": True, "CgroupVersion": "2"}, PODMAN, _PODMAN),
        (
            {"SecurityOptions": ["name=rootless"], "CgroupDriver": "none"},
            DOCKER,
            _ALL | {Promise.OUT_OF_MEMORY},
        ),
        ({"PidsLimit": False}, DOCKER, {Promise.PIDS}),
        ({"DefaultRuntime": "runsc"}, DOCKER, _GVISOR),
    ],
)
def test_what_is_lacking(info: dict[str, object], dialect: Dialect, lacks: set[Promise]) -> None:
    assert set(lacking({**_LIMITS, **info}, dialect)) == lacks


def test_a_runtime_lacks_what_its_program_is_known_for() -> None:
    info = {**_LIMITS, "DefaultRuntime": "runc", "Runtimes": {"runc": {}, "safe": {"path": "/opt/runsc"}}}
    assert [set(lacking(info, DOCKER, name)) for name in (None, "safe")] == [set(), _GVISOR]
