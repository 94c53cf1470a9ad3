"""Requirements of Python scorers, resolved on this machine as wheels for the Python of a container, once each.

In `<cache>/wheels/DIGEST/` there are `files/`, which containers get, and `packages.json` with their versions, which is
written last. pip resolves; it runs no code of any package, as it takes wheels only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..model.environ import program_environment
from ..model.errors import DiskFull, InputError, ScorerCrashed
from ..sandbox.host_command import LocalCommand
from ..store.files import DISK_ERRORS, remove_tree, write_error
from ..store.text import clean, one_line
from ..system.cache import cache_directory
from ..system.cutting import TailSink, beginning_of, end_of
from ..system.keeping import beside, locked, put_in_place, replace_file

FILES = "files"
_PACKAGES = "packages.json"
_TIMEOUT = 1800.0
_OUTPUT_LIMIT = 1 << 20
_SHOWN = 600
_OLDEST_GLIBC = 5
_NEWEST_MUSL = 2
_DIST_INFO = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)\.dist-info")
_VERSION = re.compile(r"3\.\d{1,3}\.\d{1,3}(?:[a-z0-9.+]{0,20})")
_MACHINE = re.compile(r"[A-Za-z0-9_]{1,30}")
# pip evaluates markers such as `python_version < "3.11"` for the Python that runs it, whatever --python-version says.
_PIP = """\
import json, sys
from pip._vendor.packaging import markers
told = json.loads(sys.argv.pop(1))
markers.default_environment = lambda: dict(told)
from pip._internal.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python in a container."""

    executable: str
    version: str
    """`3.11.2`."""
    markers: Mapping[str, str]
    glibc: tuple[int, int] | None
    """Version of its C library; None: it is musl."""

    @classmethod
    def of(cls, told: Mapping[str, object]) -> Interpreter | None:
        """Return the interpreter that describes itself so; None if that is no CPython that can be used."""
        from packaging.markers import default_environment

        markers = {name: beginning_of(str(told.get(name, "")), 200) for name in default_environment()}
        version, executable = markers["python_full_version"], str(told.get("executable", ""))
        libc = re.fullmatch(r"glibc (\d{1,3})\.(\d{1,4}).{0,20}", str(told.get("libc") or ""))
        if (
            not _VERSION.fullmatch(version)
            or not _MACHINE.fullmatch(markers["platform_machine"])
            or not executable.startswith("/")
            or markers["implementation_name"] != "cpython"
        ):
            return None
        return cls(executable, version, markers, None if libc is None else (int(libc[1]), int(libc[2])))

    @property
    def platforms(self) -> tuple[str, ...]:
        """Platforms whose wheels it can load, as wheels name them, the newest first."""
        machine = self.markers["platform_machine"]
        if self.glibc is None:
            return tuple(f"musllinux_1_{minor}_{machine}" for minor in range(_NEWEST_MUSL, -1, -1))
        major, newest = self.glibc
        if major != 2:
            return (f"linux_{machine}",)
        names = [f"manylinux_2_{minor}_{machine}" for minor in range(min(newest, 200), _OLDEST_GLIBC - 1, -1)]
        return (*names, *(f"manylinux{year}_{machine}" for year in ("2014", "2010", "1")), f"linux_{machine}")


def wheels_for(
    requirements: Sequence[str], python: Interpreter, check: Callable[[], object] = lambda: None
) -> tuple[Path, tuple[str, ...]]:
    """Return the directory of resolved packages, and the packages as `NAME==VERSION`.

    `check` is called while pip runs; what it raises ends pip. InputError: there is no pip on this machine.
    ScorerCrashed: they cannot be resolved, or not be fetched. DiskFull, ResultsUnwritable: the cache cannot be written.
    """
    key = json.dumps([sorted(requirements), python.version, python.platforms[0]])
    place = cache_directory("wheels") / hashlib.sha256(key.encode()).hexdigest()[:32]
    try:
        if (found := _kept(place)) is None:
            with locked(place, lambda: None):
                found = _kept(place)
                if found is None:
                    _resolve(requirements, python, place, check)
                    found = _kept(place)
    except OSError as error:
        if error.errno in DISK_ERRORS:
            raise write_error(place, error) from error
        raise ScorerCrashed(f"{place}: {error.strerror or error}") from None
    if found is None:
        raise ScorerCrashed(f"{place}: it is gone again; is another process clearing the cache?")
    return place / FILES, found


def _kept(place: Path) -> tuple[str, ...] | None:
    try:
        return tuple(json.loads((place / _PACKAGES).read_text("utf-8")))
    except (OSError, ValueError):
        return None


def _resolve(
    requirements: Sequence[str], python: Interpreter, place: Path, check: Callable[[], object]
) -> None:
    new = beside(place)
    (new / FILES).mkdir(parents=True)
    try:
        (new / FILES).chmod(0o755)
        _install(requirements, python, new / FILES, check)
        packages = sorted(
            f"{match['name']}=={match['version']}"
            for path in (new / FILES).iterdir()
            if (match := _DIST_INFO.fullmatch(path.name))
        )
        replace_file(new / _PACKAGES, json.dumps(packages).encode())
        put_in_place(new, place)
    except BaseException:
        remove_tree(new)
        raise


def _install(
    requirements: Sequence[str], python: Interpreter, target: Path, check: Callable[[], object]
) -> None:
    bundled = pip_path()
    environment = program_environment("PIP_", network=True)
    environment |= {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "PYTHONPATH": bundled}
    arguments = [
        *(sys.executable, "-c", _PIP, json.dumps(dict(python.markers)), "install", "--quiet", "--no-input"),
        *("--disable-pip-version-check", "--no-compile", "--no-warn-conflicts", "--target", str(target)),
        *("--only-binary", ":all:", "--implementation", "cp", "--python-version", python.version),
        *(part for name in python.platforms for part in ("--platform", name)),
        *("--", *requirements),
    ]
    output = TailSink(_OUTPUT_LIMIT)
    command = LocalCommand.start(arguments, Path(), environment, output)
    status = command.run_checked(time.monotonic() + _TIMEOUT, check).exit_status
    said = output.raw().decode("utf-8", "replace")
    if status is None:
        raise ScorerCrashed(f"pip did not resolve {', '.join(requirements)} within {_TIMEOUT:g} s")
    if status != 0:
        if "No space left on device" in said:
            raise DiskFull(f"{target}: no space left for {', '.join(requirements)}")
        raise ScorerCrashed(_why(said, requirements, python))


def _why(said: str, requirements: Sequence[str], python: Interpreter) -> str:
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    why = one_line(clean(" ".join(errors) or end_of(said, _SHOWN) or "pip says nothing", _SHOWN))
    return (
        f"{', '.join(requirements)} cannot be had as wheels for Python {python.version} on {python.platforms[0]}: "
        f"{why}. "
        "Look at the names and versions, and whether this machine reaches its package index"
    )


def pip_path() -> str:
    """Return PYTHONPATH for pip: empty, or the wheel that comes with Python. InputError: there is neither."""
    if importlib.util.find_spec("pip") is not None:
        return ""
    spec = importlib.util.find_spec("ensurepip")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for wheel in sorted(Path(place).glob("_bundled/pip-*.whl")):
            return str(wheel)
    raise InputError(
        "requirements of a python scorer are resolved with pip, which this Python does not have; "
        "install it beside pytest: uv pip install pip, or python -m ensurepip"
    )
