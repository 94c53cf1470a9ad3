"""Place of grading of a native scenario: its keys, their faults, and the container they mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..model.scenario import CarriedPath, Environment, FreshContainer, GradeIn
from .plain import Place
from .written import WrittenCarriedPath, WrittenFreshContainer, WrittenScenario

_IN_PLACE = "has no effect in the agent's container; remove it, or `grade_in: agent_container`"
WHOLE_CONTAINER = (
    "/ is the whole container; name a directory as `workdir`, or what is graded in `carry`, or give "
    "`grade_in: agent_container`"
)
_PATTERN = frozenset("*?[")
_OF_IMAGE = (
    *("workdir", "cpus", "cpus_request", "memory", "memory_request", "storage", "pids", "gpus"),
    *("network", "allowed_hosts"),
)
"""Keys of the agent's container that one of another image has as well."""


def place_of(written: WrittenScenario, environment: Environment) -> tuple[GradeIn, FreshContainer | None]:
    """Return its author's choice, and the fresh container; None: the agent's own."""
    if not _is_fresh(written):
        return GradeIn.AGENT_CONTAINER, None
    fresh = written.fresh_container
    if fresh is None:
        return GradeIn.FRESH, FreshContainer(carry=_carried([*written.carry, *_earlier(written)]))
    return GradeIn.FRESH, _fresh_container(fresh, environment)


def faults_of_place(written: WrittenScenario) -> Iterator[tuple[Place, str]]:
    """Yield the faults of what a scenario says of its place."""
    kept = {"keep_processes": written.keep_processes, "grading": written.grading == "contract"}
    if written.grade_in is GradeIn.FRESH:
        for key in (key for key, given in kept.items() if given):
            yield (key,), "contradicts grade_in: fresh; give one of them"
    elif not _is_fresh(written) and written.feedback is not None:
        yield (
            ("feedback",),
            "needs grade_in: fresh: in its own container the agent would find files of scorers",
        )
    fresh = written.fresh_container
    if fresh is None:
        if _is_fresh(written) and written.workdir == "/" and not [*written.carry, *_earlier(written)]:
            yield ("workdir",), WHOLE_CONTAINER
    else:
        yield from _faults_of_fresh_container(fresh, written)
        for key in (key for key, given in kept.items() if given):
            yield (key,), "has no effect with fresh_container: processes are not copied"
        if written.grade_in is GradeIn.AGENT_CONTAINER:
            yield ("fresh_container",), _IN_PLACE
        if written.carry:
            yield ("carry",), "has no effect with fresh_container; add it to its paths"
    for index, carried in enumerate(written.carry):
        if ".." in carried.source.split("/"):
            yield ("carry", index, "source"), "'..' is not allowed; write the path absolute"


def oddities_of_place(written: WrittenScenario) -> Iterator[tuple[Place, str]]:
    """Yield what is read as earlier versions had it, and what has no effect any more."""
    if written.grading == "strict":
        yield ("grading",), "strict has no effect; a fresh container is the default"
    if written.carry and not _is_fresh(written):
        yield ("carry",), _IN_PLACE  # it may be one of `defaults`
    if written.keep_changes:
        yield (
            ("keep_changes",),
            "is read as `carry`, where it has absolute paths without patterns; write `carry`",
        )


def _is_fresh(written: WrittenScenario) -> bool:
    if written.grade_in is not None:
        return written.grade_in is GradeIn.FRESH
    if written.keep_processes or written.grading == "contract":
        return False
    # What services keep is not carried unless the scenario says what.
    return written.compose is None or written.fresh_container is not None or bool(written.carry)


def _earlier(written: WrittenScenario) -> Iterator[WrittenCarriedPath]:
    for path in written.keep_changes:
        if not _PATTERN & set(path):
            yield WrittenCarriedPath(source=path)


def _carried(written: Iterable[WrittenCarriedPath]) -> tuple[CarriedPath, ...]:
    return tuple(CarriedPath.model_validate(one.model_dump()) for one in written)


def _fresh_container(written: WrittenFreshContainer, environment: Environment) -> FreshContainer:
    other = None
    if written.image is not None:
        other = Environment.model_validate(
            {name: getattr(environment, name) for name in _OF_IMAGE} | {"image": written.image}
        )
    return FreshContainer.model_validate(written.model_dump(exclude={"image"}) | {"environment": other})


def _faults_of_fresh_container(
    fresh: WrittenFreshContainer, written: WrittenScenario
) -> Iterator[tuple[Place, str]]:
    if bool(fresh.paths) is fresh.patch:
        found = "both are given" if fresh.patch else "neither is given"
        yield ("fresh_container",), f"paths: [PATH, ...] or patch: true is expected, {found}"
    if not fresh.ignored and not fresh.patch:
        yield ("fresh_container", "ignored"), "has no effect without patch: true"
    if fresh.patch and written.workdir == "/":
        yield ("fresh_container", "patch"), "needs a workdir other than /, because its content is copied"
    if fresh.image is not None and fresh.patch:
        yield ("fresh_container", "image"), "needs paths: a patch fits only the image that it was made in"
    elif fresh.image is not None and written.workdir is None:
        yield (
            ("fresh_container", "image"),
            "needs a workdir of the scenario: the two images may have different ones",
        )
    for index, carried in enumerate(fresh.paths):
        if ".." in carried.source.split("/"):
            yield (
                ("fresh_container", "paths", index, "source"),
                "'..' is not allowed; write the path absolute",
            )
