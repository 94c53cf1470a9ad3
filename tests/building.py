"""The wheel and the sdist, built once a run for all workers of xdist; and the repository as a clone has it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
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


def install(dist: Path, directory: Path) -> None:
    """Install the wheel into a new environment, which has everything else from the one that runs the tests."""
    quiet(sys.executable, "-m", "venv", "--without-pip", directory)
    python = directory / "bin" / "python"
    [wheel] = dist.glob("*.whl")
    quiet(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel)
    # A path file of a path file is not read, so the editable installation is not found by way of this one.
    [packages] = directory.glob("lib/python*/site-packages")
    (packages / "tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n", "utf-8")
    script = directory / "bin" / "pytest"
    script.write_text(f"#!{python}\nimport pytest\nraise SystemExit(pytest.main())\n", "utf-8")
    script.chmod(0o755)


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
