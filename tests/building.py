"""The wheel and the sdist, built once a run for all workers of xdist; and the repository as a clone has it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a directory that one worker makes, and all others of the run find made."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    made, mark = shared / name, shared / f"{name}.made"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.is_file():
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            make(made)
            mark.touch()
    return made


def quiet(*command: str | Path, **env: str) -> None:
    """Run a command, which prints something only if it fails."""
    done = subprocess.run(
        command,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"$ {' '.join(map(str, command))}\n{done.stdout}"


def build(directory: Path) -> None:
    """Build and check both, as `make dist` does. Skip where pip reaches no index: what builds them is fetched."""
    probe = directory.with_name("probe")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "pluggy", "--dest", str(probe)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("pip reaches no package index")
    quiet(ROOT / "scripts" / "dist.sh", directory, PYTHON=sys.executable)


def environment(directory: Path, paths: Sequence[Path]) -> Path:
    """Make an environment without pip that finds modules in these directories; returns its interpreter."""
    quiet(sys.executable, "-m", "venv", "--without-pip", directory)
    python = directory / "bin" / "python"
    # A path file in one of them is not read, so an editable installation is not found by way of this one.
    [packages] = directory.glob("lib/python*/site-packages")
    (packages / "tests.pth").write_text("".join(f"{path}\n" for path in paths), "utf-8")
    for name, main in (
        ("pytest", "import pytest\nraise SystemExit(pytest.main())\n"),
        ("benchjobs", _BENCHJOBS),
    ):
        script = directory / "bin" / name
        script.write_text(f"#!{python}\n{main}", "utf-8")
        script.chmod(0o755)
    return python


def variables(python: Path, **more: str) -> dict[str, str]:
    """Return variables by which processes, and those that they start, find this environment and nothing before it."""
    found = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", **more}
    found.pop("PYTHONPATH", None)
    return found


def packages() -> list[Path]:
    """Return the directory of what is installed beside this package."""
    return [Path(sysconfig.get_path("purelib"))]


_BENCHJOBS = "from pytest_benchjobs.cli import main\nraise SystemExit(main())\n"


def install(dist: Path, directory: Path) -> None:
    """Install the wheel into a new environment, which has everything else from the one that runs the tests."""
    python = environment(directory, packages())
    [wheel] = dist.glob("*.whl")
    quiet(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel)


def committed(*paths: str) -> set[str]:
    """Files of the repository, those not yet committed among them."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout.splitlines()
    return {name for name in found if (ROOT / name).is_file()}


def clone(directory: Path) -> None:
    """Copy these files."""
    for name in committed():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, directory / name)
