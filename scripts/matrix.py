"""Runs the plugin tests on every supported pytest and pytest-xdist, each in a virtual environment of its own.

    scripts/matrix.py [--quick] [oldest|middle|newest|neighbours ...]      default: all

`--quick` leaves out what the newest version has just been through and older ones would hardly see differently.
`neighbours` installs the plugins people have beside this one, and runs the quickstart in their company.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from pytest_benchjobs.sandbox.program import program_file
from pytest_benchjobs.sandbox.program.compiling import MACHINES

ROOT = Path(__file__).resolve().parent.parent
PINS = {
    "oldest": ("pytest==8.4.*", "pytest-xdist==3.7.*"),
    "middle": ("pytest==9.0.*", "pytest-xdist==3.8.*"),
    "newest": ("pytest==9.2.*", "pytest-xdist==3.8.*"),
    "neighbours": (
        "pytest-benchmark",
        "pytest-cov",
        "pytest-html",
        "pytest-randomly",
        "pytest-rerunfailures",
        "pytest-sugar",
        "pytest-timeout",
    ),
}

# What meets pytest itself; the rest of tests/plugin is about our own commands, which call pytest as anybody does.
QUICK = ("attempts", "collection", "running", "xdist")
WHOLE = (*QUICK, "mistakes", "requirements", "resume", "reuse")


def environment(name: str) -> Path:
    """Make the environment for `name` if it is not there; returns its interpreter."""
    directory = ROOT / ".matrix" / name
    python = directory / "bin" / "python"
    installed = directory / ".installed"
    wanted = (ROOT / "pyproject.toml").read_text("utf-8") + "\n".join(PINS[name])
    if installed.is_file() and installed.read_text("utf-8") == wanted:
        return python
    print(f"matrix: making an environment with {', '.join(PINS[name])}", flush=True)
    venv.create(directory, with_pip=True, clear=True)
    pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
    subprocess.run([*pip, "--editable", ROOT, *PINS[name]], check=True)
    installed.write_text(wanted, "utf-8")
    return python


def run(name: str, *, quick: bool) -> bool:
    """Run the tests in the environment for `name`; returns whether they pass."""
    python = environment(name)
    if name == "neighbours":
        strict = ["--strict-markers", "-W", "error", "--timeout=5", "--reruns=2"]
        command = [python, ROOT / "scripts" / "demo.py", *strict]
    else:
        tests = [f"tests/plugin/test_{part}.py" for part in (QUICK if quick else WHOLE)]
        chosen = ["-m", "not extended"] if quick else []
        workers = str((os.cpu_count() or 1) * 3 // 2)
        command = [python, "-m", "pytest", *tests, "-q", "-n", workers, "-p", "no:cacheprovider", *chosen]
    print(f"matrix: {name}", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL).returncode == 0


def main() -> int:
    """Run what was asked for; 1 when anything failed, 2 for a name that is not there."""
    quick = "--quick" in sys.argv[1:]
    names = [argument for argument in sys.argv[1:] if argument != "--quick"] or list(PINS)
    unknown = [name for name in names if name not in PINS]
    if unknown:
        known = ", ".join(PINS)
        print(f"matrix: no environment named {', '.join(unknown)}; there are {known}", file=sys.stderr)
        return 2
    # The environments have no compiler: they find what this one has compiled in the cache of the machine.
    for machine in MACHINES:
        program_file(machine)
    verdicts = {name: run(name, quick=quick) for name in names}
    for name, passed in verdicts.items():
        print(f"matrix: {name:<12} {'passed' if passed else 'FAILED'}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
