"""Facts of a checkout that `init` needs: project, agent, CI system, main branch."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from ..agents.builtin import RESERVED
from ..agents.described import SUFFIXES, DescribedAgent
from ..agents.given import given_agents, starting_file
from ..model.errors import InputError
from ..settings.agents import read_agent
from ..sources.manifest import is_manifest

_AGENT_DIRECTORY = re.compile(r"(?:.*[-_])?(?:agent|bot)", re.IGNORECASE)
_IMAGES = {"python3": "python:3.12-slim", "node": "node:22-slim"}
_PLAIN_IMAGE = "debian:bookworm-slim"
_NEW = "my-agent"
_USUAL = "github"
_CI_FILES = {
    "github": (".github/workflows/benchmark.yml", "", "", ".github/workflows/*.y*ml"),
    "gitlab": (
        ".gitlab-ci.yml",
        ".gitlab/benchmark.yml",
        "add to .gitlab-ci.yml: include: [{local: .gitlab/benchmark.yml}]",
        ".gitlab/*.y*ml",
    ),
    "jenkins": (
        "Jenkinsfile",
        "benchmarks/Jenkinsfile",
        "create a pipeline in Jenkins with the script path benchmarks/Jenkinsfile",
        "*/Jenkinsfile",
    ),
}
"""CI system -> the file that it looks for; the one to write where that is taken, and how to have it used; others."""
_GIT_SECONDS = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout, as far as `init` needs to know it."""

    project: str
    agent: str
    """Name of the agent."""
    path: str | None
    """Directory or program of the agent, from `benchmarks/`; None: an agent file names it already."""
    argv: tuple[str, ...]
    is_new: bool
    """True if the agent is to be written as well."""
    image: str
    branch: str
    ci: str | None
    ci_file: str | None
    ci_include: str | None
    """Advice how to have the CI file used, where the system would not find it by itself."""
    agent_file: str | None = None
    """Agent file that is there already."""
    ci_origin: Literal["seen", "named", "usual"] = "named"
    """How the CI system became known: by files or the git remote, by `--ci`, or as nothing else was seen."""
    manifest: str | None = None
    """Benchmark that is there already."""

    def lines(self) -> Iterator[str]:
        """Return lines that tell what was found."""
        system = f", CI of {self.ci}" if self.ci_origin == "seen" else ""
        yield f"found  project {self.project}, main branch {self.branch}{system}"
        if self.ci_origin == "usual":
            yield f"no CI system found; writing a file for {self.ci}; --ci names another, or none"
        if self.agent_file is not None:
            yield f"found  agent {self.agent}, described by {self.agent_file}"
        elif self.is_new:
            yield f"no agent found; writing {_NEW}/, to be filled in; --agent NAME=./PATH names yours"
        else:
            path = os.path.normpath(f"benchmarks/{self.path}")
            yield f"found  agent {self.agent}, started with {' '.join(self.argv).replace('{agent}', path)}"


def look_at(root: Path, agent: str | None, ci: str) -> Checkout:
    """Look at the checkout in a directory. `agent` is `NAME=./PATH`, if one was named; `ci` may be `auto` or `none`."""
    project = _slug(_project(root))
    seen = _system(root) if ci == "auto" else None
    system = None if ci == "none" else (seen or _USUAL) if ci == "auto" else ci
    file, include = _ci_file(root, system)
    manifests = sorted(path for path in (root / "benchmarks").glob("*") if is_manifest(path))
    name, path, argv, described = _agent(root, project, agent)
    is_new = path is None and described is None
    program = (root / path).joinpath(argv[-1].removeprefix("{agent}").lstrip("/")) if path and argv else None
    return Checkout(
        project=project,
        agent=name,
        path=f"../{_NEW}" if is_new else path and os.path.relpath(root / path, root / "benchmarks"),
        argv=("{agent}/run.sh",) if is_new else argv,
        is_new=is_new,
        image=_image(argv, program),
        branch=_branch(root),
        ci=system,
        ci_file=file,
        ci_include=include,
        agent_file=described,
        ci_origin="named" if ci != "auto" else "usual" if seen is None else "seen",
        manifest=manifests[0].relative_to(root).as_posix() if manifests else None,
    )


def _agent(
    root: Path, project: str, named: str | None
) -> tuple[str, str | None, tuple[str, ...], str | None]:
    """Return the agent's name, path from the root, arguments and agent file. Neither path nor file: write one."""
    if named is not None:
        return _named(root, named)
    files = [
        path
        for below in (root, root / "benchmarks")
        for suffix in SUFFIXES
        for path in below.glob(f"*{suffix}")
    ]
    for file in sorted(files):
        return DescribedAgent.of_file(file).name, None, (), file.relative_to(root).as_posix()
    below = [
        path for path in sorted(root.iterdir()) if path.is_dir() and _AGENT_DIRECTORY.fullmatch(path.name)
    ]
    for directory in (*below, root):
        name = project if directory == root else _slug(directory.name)
        name = f"{project}-{name}" if name in RESERVED else name
        if (argv := starting_file(name, directory)) is not None:
            return name, directory.relative_to(root).as_posix(), tuple(argv), None
    return _NEW, None, (), None


def _named(root: Path, written: str) -> tuple[str, str | None, tuple[str, ...], str | None]:
    spec = read_agent(written, Path.cwd())
    if spec.path is None or spec.model is not None:
        raise InputError(f"--agent: {written!r} is not of the form NAME=./PATH")
    agent = given_agents([spec])[spec.name]
    assert isinstance(agent, DescribedAgent)  # noqa: S101  a path gives one
    return spec.name, os.path.relpath(spec.path, root), tuple(agent.description.argv), None


def _image(argv: tuple[str, ...], program: Path | None) -> str:
    """Return an image that has the agent's interpreter."""
    words = set(argv[:1])
    if program is not None and program.is_file():
        with program.open("rb") as file:
            first = file.readline(200).decode("utf-8", "replace")
        words |= set(re.findall(r"[a-z0-9]+", first.partition("#!")[2]))
    return next((image for word, image in _IMAGES.items() if word in words), _PLAIN_IMAGE)


def _project(root: Path) -> str:
    try:
        name = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return root.name
    return name if isinstance(name, str) else root.name


def _slug(text: str) -> str:
    """Turn a text into a valid name of a benchmark or agent."""
    return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-._")[:60] or "project"


def _system(root: Path) -> str | None:
    """Detect the CI system of a checkout by its files, else by its remote; None: by neither."""
    for name, system in ((".github", "github"), (".gitlab-ci.yml", "gitlab"), ("Jenkinsfile", "jenkins")):
        if (root / name).exists():
            return system
    remote = _git(root, "remote", "get-url", "origin").lower()
    return next((system for system in ("gitlab", "github") if system in remote), None)


def _ci_file(root: Path, system: str | None) -> tuple[str | None, str | None]:
    """Return the name of the CI file, one that runs benchmarks already if there is, and advice how to have it used."""
    if system is None:
        return None, None
    usual, other, advice, pattern = _CI_FILES[system]
    places = (root / usual, *sorted(root.glob(pattern)))
    ours = next((path.relative_to(root).as_posix() for path in places if "benchjobs" in _text(path)), None)
    file = ours or (other if advice and (root / usual).exists() else usual)
    return file, advice if file == other and other not in _text(root / usual) else None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _branch(root: Path) -> str:
    head = _git(root, "symbolic-ref", "--short", "refs/remotes/origin/HEAD").removeprefix("origin/")
    branch = head or _git(root, "symbolic-ref", "--short", "HEAD")
    return branch if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", branch) else "main"


def _git(root: Path, *arguments: str) -> str:
    """Return the output of a git command; empty where it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True, text=True, errors="replace", timeout=_GIT_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
