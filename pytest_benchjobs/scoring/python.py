"""`python`: a script or an expression, run by a Python of the container that has its requirements and nothing else.

The agent sees nothing of it: it is put in after the agent has ended, and removed when it has graded. Its requirements
come from this machine, as wheels, and the container has no network meanwhile. Neither the workdir nor what is
installed in the container is on the path, so no module of the agent takes part.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..model.errors import InputError, ScorerCrashed, ScorerTimeout
from ..model.scenario import ScorerSpec
from ..sandbox.protocol import File, Sandbox
from .metrics import printed_score, take_metrics
from .output import Tail
from .protocol import Graded, ScoringContext
from .wheels import Interpreter, pip_path, wheels_for

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

DIRECTORY = "/bench/python"
_OLDEST = ">=3.8"
_NEWEST_MINOR = 20
_PROBE_TIMEOUT = 120.0
_DESCRIBE = """\
import json, os, platform, sys
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION")
except (AttributeError, OSError, ValueError):
    libc = None
v = sys.implementation.version
print("benchjobs-python " + json.dumps({
    "executable": sys.executable, "libc": libc,
    "implementation_name": sys.implementation.name, "implementation_version": ".".join(map(str, v[:3])),
    "os_name": os.name, "platform_machine": platform.machine(), "platform_release": platform.release(),
    "platform_system": platform.system(), "platform_version": platform.version(),
    "platform_python_implementation": platform.python_implementation(),
    "python_full_version": platform.python_version(),
    "python_version": ".".join(platform.python_version_tuple()[:2]), "sys_platform": sys.platform}))
"""
_MARK = "benchjobs-python "
# `-S` leaves out what is installed in the container; `site` then adds the functions that scripts expect.
_RUN = """\
import ast, os, site, sys
def main():
    here = os.path.dirname(os.path.abspath(__file__))
    packages, path = os.path.join(here, "packages"), os.path.join(here, "script.py")
    sys.path[:] = [place for place in sys.path if place and os.path.abspath(place) not in (here, os.getcwd())]
    if os.path.isdir(packages):
        site.addsitedir(packages)
    sys.path.append("/bench/lib")
    for name in ("setquit", "sethelper"):
        getattr(site, name, lambda: None)()
    with open(path, encoding="utf-8") as file:
        text = file.read()
    sys.argv[:] = [path]
    names = sys.modules["__main__"].__dict__
    names.update(__file__=path)
    names.pop("main", None)
    try:
        expression = compile(text.strip(), path, "eval")
    except SyntaxError:
        exec(compile(text, path, "exec"), names)
        return
    value = eval(expression, names)
    if isinstance(value, (bool, int, float)):
        print("score=%r" % float(value))
main()
"""


def check_python(spec: ScorerSpec) -> None:
    """Check the parameters, and that this machine can resolve requirements. InputError: it cannot, or one is wrong."""
    who = f"scorer {spec.name!r}"
    if (spec.script is None) is (spec.path is None):
        raise InputError(f"{who}: give script or path, one of the two")
    if spec.path is not None and not spec.path.is_file():
        raise InputError(f"{who}: path: {spec.path} is no file")
    _specifiers(spec)
    if spec.requirements:
        from packaging.requirements import InvalidRequirement, Requirement

        for text in spec.requirements:
            try:
                url = Requirement(text).url
            except InvalidRequirement as error:
                why = str(error).partition("\n")[0]
                raise InputError(f"{who}: requirements: {text!r} is no requirement: {why}") from None
            if url is not None:
                raise InputError(
                    f"{who}: requirements: {text!r} has an address; write a name and a version: numpy==2.1.0"
                )
        pip_path()


def probe_python(spec: ScorerSpec, sandbox: Sandbox, check: Callable[[], object]) -> Interpreter:
    """Return the Python of a container in which no agent has been, with its requirements resolved on this machine.

    An agent may add a program that says it is a Python that fits, so nothing is looked for once it has been there.
    ScorerCrashed: there is no such Python, or the requirements cannot be had.
    """
    python = _find(spec, sandbox)
    if spec.requirements:
        wheels_for(spec.requirements, python, check)
    return python


def score_python(context: ScoringContext) -> Graded:
    """`python`: what the script prints, as in `bash`; of a script that is an expression, its value.

    ScorerCrashed: it fails, or there is no Python for it. ScoreMissing, ScoreInvalid: it gives no score.
    """
    spec = context.spec
    check_python(spec)
    python = context.probed if isinstance(context.probed, Interpreter) else _find(spec, context.sandbox)
    files = [
        File(DIRECTORY, clean=True, mode=0o755),
        File(f"{DIRECTORY}/run.py", content=_RUN.encode()),
        File(f"{DIRECTORY}/script.py", source=spec.path, readable=True)
        if spec.script is None
        else File(f"{DIRECTORY}/script.py", content=spec.script.encode("utf-8", "replace")),
    ]
    details: dict[str, object] = {"python": python.version}
    if spec.requirements:
        packages, names = wheels_for(spec.requirements, python)
        details["packages"] = list(names)
        files.append(File(f"{DIRECTORY}/packages", source=packages, readable=True))
    take_metrics(context)
    context.sandbox.put(files)
    run = shlex.join((python.executable, "-I", "-S", "-B", f"{DIRECTORY}/run.py"))
    try:
        graded = printed_score(context, run, "a python scorer prints its score, or is an expression")
    finally:
        # Programs of the agent that a later scorer runs do not find it.
        context.sandbox.put([File(DIRECTORY, clean=True, mode=0o755)])
    return dataclasses.replace(graded, details=details)


def _find(spec: ScorerSpec, sandbox: Sandbox) -> Interpreter:
    """Return the first Python of the container that fits. ScorerCrashed: there is none."""
    stdout = Tail()
    names = ("python3", *(f"python3.{minor}" for minor in range(_NEWEST_MINOR, 7, -1)), "python")
    command = (
        f"for name in {' '.join(names)}; do if command -v $name >/dev/null 2>&1; then "
        f"$name -I -S -B -c {shlex.quote(_DESCRIBE)} 2>/dev/null; fi; done; true"
    )
    result = sandbox.exec(
        ("/bin/sh", "-c", command), timeout=_PROBE_TIMEOUT, sink=Tail(), stdout=stdout, user=spec.user
    )
    who = f"scorer {spec.name!r}"
    if result.timed_out:
        raise ScorerTimeout(f"{who}: no Python of the container answered within {_PROBE_TIMEOUT:g} s")
    wanted, found = _specifiers(spec), list(_described(stdout.text()))
    for python in found:
        if wanted.contains(python.version, prereleases=True):
            return python
    elsewhere = (
        "choose an image that has it, or grade in another one: fresh_container: {paths: [...], image: IMAGE}"
    )
    if not found:
        raise ScorerCrashed(f"{who} needs Python 3.8 or newer, and the container has none; {elsewhere}")
    there = ", ".join(dict.fromkeys(python.version for python in found))
    raise ScorerCrashed(
        f"{who} needs Python {spec.python_version or _OLDEST}, and the container has {there}; {elsewhere}"
    )


def _described(output: str) -> Iterator[Interpreter]:
    for line in output.splitlines():
        if line.startswith(_MARK):
            try:
                told = json.loads(line.removeprefix(_MARK))
            except (ValueError, RecursionError):
                continue
            python = Interpreter.of(told) if isinstance(told, dict) else None
            if python is not None:
                yield python


def _specifiers(spec: ScorerSpec) -> SpecifierSet:
    try:
        return _parsed(spec.python_version or _OLDEST)
    except ValueError:
        raise InputError(
            f"scorer {spec.name!r}: python_version: {spec.python_version!r} is no version; write ==3.12.*, >=3.10 or "
            "the like"
        ) from None


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> SpecifierSet:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(f"=={text}.*" if text.count(".") == 1 and text.replace(".", "").isdigit() else text)
