"""Conversion of a written scenario to a `Scenario`: rules across keys, then paths and contents."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from ..model.errors import InputError
from ..model.metric import MOST, OWN_SCORE, MetricSpec
from ..model.pattern import pattern_fault
from ..model.scenario import (
    MAIN,
    TURN,
    Answer,
    ArtifactSpec,
    Environment,
    Feedback,
    FreshContainer,
    HealthCheck,
    Reference,
    Requires,
    Scenario,
    ScorerSpec,
    Step,
)
from .complaints import MISSING, first_mistake
from .compose import ComposeFile, read_compose
from .documents import read_text
from .place import faults_of_place, place_of
from .plain import Place
from .servers import faults_of_servers, mcp_server
from .turns import faults_of_turns, steps_of_turns, whole_conversation
from .written import (
    WrittenArtifact,
    WrittenCarriedPath,
    WrittenEnvironment,
    WrittenHeader,
    WrittenReference,
    WrittenScenario,
    WrittenScorer,
)

SCORER_NEEDS = {"bash": "script", "command": "command", "tests": "path", "harbor": "path"}
"""Built-in types of scorers and the key that each requires."""
ANSWER = "answer"
"""Built-in type that requires the scenario's key of the same name."""

_KEPT = "benchjobs-kept:"
"""Prefix of the references of kept containers."""
_CONTAINS = "contains the benchmark itself, and so the answers, which the agent could read; name a directory of its own"
_ENVIRONMENT = tuple(WrittenEnvironment.model_fields)
_Fault = tuple[Place, str]


def find_faults(written: WrittenScenario, directory: Path) -> Iterator[_Fault]:
    """Faults of a scenario whose keys are valid separately."""
    if written.problem_statement is not None and written.problem_file is not None:
        yield ("problem_file",), "give problem_statement or problem_file, not both"
    elif written.problem_statement is None and written.problem_file is None and not written.turns:
        yield ("problem_statement",), MISSING
    elif written.problem_statement is not None and not written.problem_statement.strip():
        yield ("problem_statement",), "is empty"
    if written.snapshot is not None:
        yield from _faults_of_snapshot(written, written.snapshot)
    yield from _faults_of_services(written, directory)
    if written.dockerfile is None and written.context is not None:
        yield ("context",), "has no use without dockerfile"
    for key in ("cpus", "memory"):
        if (amount := getattr(written, key)) is not None and amount.request > amount.limit:
            yield (key, "request"), "is more than the limit"
    yield from _faults_of_networks(written)
    yield from ((("mcp_servers", index), why) for index, why in faults_of_servers(written.mcp_servers))
    yield from _faults_of_scorers(written)
    yield from faults_of_place(written)
    yield from _faults_of_feedback(written)
    yield from faults_of_turns(written)
    yield from _faults_of_reference(written.reference)
    yield from _faults_of_answer(written)
    yield from _faults_of_container_paths(written)
    yield from _missing_paths(written, directory)


def faults_of_files(written: WrittenScenario, directory: Path) -> Iterator[_Fault]:
    """Faults that a scenario without any may have got since by a change of the files that it names."""
    yield from _faults_of_services(written, directory)
    yield from _missing_paths(written, directory)


def _faults_of_snapshot(written: WrittenScenario, snapshot: str) -> Iterator[_Fault]:
    for key in ("image", "dockerfile"):
        if getattr(written, key) is not None:
            yield (key,), "has no use with snapshot, which is an image already; give one of them"
    job, _, trial = snapshot.partition("/")
    if not snapshot.startswith(_KEPT) and not (job and trial):
        yield (
            ("snapshot",),
            f"JOB/TRIAL is expected, such as 20260101-120000-abc/count[oracle], not {snapshot[:60]!r}",
        )


def _faults_of_services(written: WrittenScenario, directory: Path) -> Iterator[_Fault]:
    described: ComposeFile | None = None
    if written.compose is not None:
        try:
            described = read_compose(directory / written.compose)
        except InputError as error:
            yield ("compose",), str(error)
            return
    if written.image is None and written.dockerfile is None and written.snapshot is None:
        if described is None:
            yield ("image",), "is missing, and so is dockerfile; give one, here or in defaults"
        elif described.image_of(MAIN) is None:
            yield (
                ("image",),
                f"is missing, and so are dockerfile, and an image of `main` in {written.compose}",
            )
    names = (MAIN,) if described is None else described.names
    hint = "give a file of them as `compose`" if described is None else f"there are {', '.join(names)}"
    carried = () if written.fresh_container is None else written.fresh_container.paths
    tables: tuple[tuple[Place, Sequence[WrittenArtifact | WrittenCarriedPath]], ...] = (
        (("artifacts",), written.artifacts),
        (("fresh_container", "paths"), carried),
        (("carry",), written.carry),
    )
    for place, listed in tables:
        for index, path in enumerate(listed):
            if path.service not in names:
                yield (*place, index, "service"), f"there is no service {path.service!r}; {hint}"


def _faults_of_networks(written: WrittenScenario) -> Iterator[_Fault]:
    own = [
        (("agent_network",), ("agent_allowed_hosts",), written.agent_network, written.agent_allowed_hosts),
        *(
            (
                ("scorers", index, "network"),
                ("scorers", index, "allowed_hosts"),
                scorer.network,
                scorer.allowed_hosts,
            )
            for index, scorer in enumerate(written.scorers)
        ),
    ]
    used = written.network == "allowlist"
    needs: list[Place] = [("network",)] if used else []
    for place, hosts_place, network, hosts in own:
        limited = (network or written.network) == "allowlist"
        if hosts and not limited:
            yield hosts_place, f"has no effect without {place[-1]}: allowlist"
        if network == "allowlist":
            if hosts is None:
                needs.append(place)
            elif not hosts:
                yield hosts_place, "is empty; to allow no host write the network 'none'"
    if needs and not written.allowed_hosts:
        yield needs[0], "'allowlist' needs allowed_hosts: [name, ...]; to allow no host write 'none'"
    if written.allowed_hosts and not needs:
        yield ("allowed_hosts",), "has no effect without network: allowlist"


_NO_METRICS = ("answer", "ast_grep", "files", "judge", "turn")


def _faults_of_scorers(written: WrittenScenario) -> Iterator[_Fault]:
    if not written.scorers and not written.turns:
        if "scorers" in written.model_fields_set:
            yield ("scorers",), "is empty; a scenario needs at least one scorer"
        else:
            yield ("scorers",), MISSING
    names: dict[str, int] = {}
    for index, scorer in enumerate(written.scorers):
        place = ("scorers", index)
        if scorer.name is None and len(written.scorers) > 1:
            yield (*place, "name"), "is required but missing where there is more than one scorer"
        elif names.setdefault(scorer.label, index) != index:
            yield (*place, "name"), f"{scorer.label!r} is already the name of another scorer of this scenario"
        if scorer.type == TURN:
            yield (*place, "type"), "is for turns of a conversation; write `expect` and `forbid` in `turns`"
        needed = SCORER_NEEDS.get(scorer.type)
        if needed is not None and getattr(scorer, needed) is None:
            yield (*place, needed), f"is required but missing for a scorer of type {scorer.type!r}"
        yield from _faults_of_python(place, scorer)
        if scorer.runner is not None and (scorer.type != "tests" or scorer.command is not None):
            why = "`command` says how they are run" if scorer.type == "tests" else f"not {scorer.type!r}"
            yield (*place, "runner"), f"has an effect only for scorers of type 'tests'; {why}"
    yield from _faults_of_metrics(written.scorers)


def _faults_of_python(place: Place, scorer: WrittenScorer) -> Iterator[_Fault]:
    if scorer.type == "python":
        if (scorer.script is None) is (scorer.path is None):
            yield place, "script or path: one of the two is expected for a scorer of type 'python'"
        return
    for key in ("requirements", "python_version"):
        if getattr(scorer, key):
            yield (*place, key), f"has an effect only for scorers of type 'python', not {scorer.type!r}"


def _faults_of_metrics(scorers: Sequence[WrittenScorer]) -> Iterator[_Fault]:
    owners: dict[str, int] = {}
    for index, scorer in enumerate(scorers):
        if len(scorer.metrics) > MOST:
            yield ("scorers", index, "metrics"), f"has {len(scorer.metrics)} metrics; {MOST} are allowed"
        for name, metric in scorer.metrics.items():
            place = ("scorers", index, "metrics", name)
            try:
                MetricSpec.model_validate(metric.model_dump(exclude_none=True))
            except ValidationError as error:
                yield place, first_mistake(error)
            if scorer.type in _NO_METRICS:
                yield place, f"has no use: a scorer of type {scorer.type!r} reports no metrics"
            elif name == OWN_SCORE and metric.model_fields_set - {"weight"}:
                yield place, "is the scorer's own score, which takes only a weight"
            elif name != OWN_SCORE and owners.setdefault(name, index) != index:
                yield place, f"is already a metric of scorer {scorers[owners[name]].label!r}"


def _faults_of_feedback(written: WrittenScenario) -> Iterator[_Fault]:
    feedback = written.feedback
    if feedback is None:
        return
    names = [scorer.label for scorer in written.scorers]
    if feedback.scorer is not None and feedback.scorer not in names:
        yield ("feedback", "scorer"), f"no scorer {feedback.scorer!r}; available: {', '.join(names)}"
    for pattern, text in feedback.replace.items():
        if (fault := pattern_fault(pattern, text)) is not None:
            yield ("feedback", "replace", pattern), fault


def _faults_of_reference(reference: WrittenReference | None) -> Iterator[_Fault]:
    if reference is None:
        return
    given = [key for key in WrittenReference.model_fields if getattr(reference, key)]
    if len(given) != 1:
        found = f"not {' and '.join(given)}" if given else "none is given"
        yield ("reference",), f"one of script, patch, file and files is expected, {found}"


def _faults_of_answer(written: WrittenScenario) -> Iterator[_Fault]:
    answer = written.answer
    if answer is None:
        for index, scorer in enumerate(written.scorers):
            if scorer.type == ANSWER:
                yield ("scorers", index), "answer: is required but missing for a scorer of type 'answer'"
        return
    if answer.reference is not None and written.reference is not None:
        yield ("answer", "reference"), "give it or the scenario's reference, not both"


def needs_container(written: WrittenScenario) -> bool:
    """Return True if a short answer is wanted, but every agent needs a container for it."""
    others = (
        written.files, written.artifacts, written.setup, written.healthcheck, written.compose, written.fresh_container,
        written.carry,
    )  # fmt: skip
    return written.answer is not None and any(others)


def _faults_of_container_paths(written: WrittenScenario) -> Iterator[_Fault]:
    places: list[Place] = [("files", target) for target in written.files]
    if written.reference is not None:
        places += [("reference", "files", target) for target in written.reference.files]
    paths = {place: str(place[-1]) for place in places}
    if written.answer is not None:
        paths["answer", "file"] = written.answer.file
    for place, path in paths.items():
        if ".." in path.split("/"):
            yield place, "'..' is not allowed in a path in the container; write it absolute"
    for index, artifact in enumerate(written.artifacts):
        destination = artifact.destination
        if destination is not None and (destination.startswith("/") or ".." in destination.split("/")):
            place = ("artifacts", index, "destination")
            yield place, "must be relative and without '..': it starts at the trial's artifacts/"


def _missing_paths(written: WrittenScenario, directory: Path) -> Iterator[_Fault]:
    def at(text: str) -> str:
        return os.path.join(directory, text)  # noqa: PTH118  half the cost of collecting a large manifest

    def file(place: Place, text: str | None) -> Iterator[_Fault]:
        if text is not None and not os.path.isfile(at(text)):  # noqa: PTH113  unlike Path, never raises
            yield place, f"no file {text!r} in {directory}"

    def anything(place: Place, text: str | None) -> Iterator[_Fault]:
        if text is not None and not os.path.exists(at(text)):  # noqa: PTH110  unlike Path, never raises
            yield place, f"no file or directory {text!r} in {directory}"

    yield from file(("problem_file",), written.problem_file)
    yield from file(("dockerfile",), written.dockerfile)
    if written.context is not None and not os.path.isdir(at(written.context)):  # noqa: PTH112  never raises
        yield ("context",), f"no directory {written.context!r} in {directory}"
    for target, source in written.files.items():
        yield from anything(("files", target), source)
        is_above = os.path.isdir(at(source)) and Path(  # noqa: PTH112  never raises
            os.path.realpath(directory)
        ).is_relative_to(os.path.realpath(at(source)))
        if is_above:
            yield ("files", target), f"{source!r} {_CONTAINS}"
    if written.reference is not None:
        yield from file(("reference", "patch"), written.reference.patch)
        yield from file(("reference", "file"), written.reference.file)
        for target, source in written.reference.files.items():
            yield from anything(("reference", "files", target), source)
    for index, scorer in enumerate(written.scorers):
        yield from anything(("scorers", index, "path"), scorer.path)


def assemble(
    written: WrittenScenario, header: WrittenHeader, directory: Path, path: Path, line: int | None
) -> Scenario:
    """The scenario at a line of a file, with absolute paths and the contents of the files it refers to.

    Raises InputError: such a file is not UTF-8 text, or empty; pydantic.ValidationError: a rule of the model that the
    rules above do not cover.
    """
    environment = _environment(written, directory)
    grade_in, fresh = place_of(written, environment)
    statement, steps, scorers = _task(written, directory, fresh)
    category = {} if written.category is None else {"category": written.category}
    own = written.model_fields_set
    optional = {
        key: value
        for key in (
            "additional_context",
            "agent_user",
            "agent_allowed_hosts",
            "agent_network",
            "agent_timeout",
            "provider_tools",
            "scorer_timeout",
            "threshold",
        )
        if key in own and (value := getattr(written, key)) is not None
    }
    return Scenario(
        id=written.id,
        benchmark=header.benchmark,
        benchmark_version=header.version,
        problem_statement=statement,
        tags=tags_of(written),
        metadata={
            **written.metadata,
            **category,
            **({} if written.cluster is None else {"cluster": written.cluster}),
        },
        archived=written.archived,
        confidential=header.confidential,
        validation=written.validation,
        environment=environment,
        files={target: directory / source for target, source in written.files.items()},
        reference=_reference(written.reference, directory),
        answer=None
        if written.answer is None
        else Answer.model_validate(written.answer.model_dump(exclude_none=True)),
        agent_env=written.agent_env,
        scorers=scorers,
        steps=steps,
        diagnostic=bool(written.turns) and written.mode == "diagnostic",
        grade_in=grade_in,
        fresh_container=fresh,
        feedback=None
        if (feedback := written.feedback) is None
        else Feedback.model_validate({**feedback.model_dump(), "replace": tuple(feedback.replace.items())}),
        artifacts=tuple(ArtifactSpec.model_validate(artifact.model_dump()) for artifact in written.artifacts),
        requires=Requires.model_validate(written.requires.model_dump() if written.requires else {}),
        source=path,
        line=line,
        **optional,
    )


def tags_of(written: WrittenScenario) -> tuple[str, ...]:
    """Return the tags of a scenario, its category among them."""
    return tuple(dict.fromkeys([*written.tags, *filter(None, [written.category])]))


def _task(
    written: WrittenScenario, directory: Path, fresh: FreshContainer | None
) -> tuple[str, tuple[Step, ...], tuple[ScorerSpec, ...]]:
    """Return the problem statement, the steps that turns of a conversation are, and all scorers."""
    statement = written.problem_statement
    if statement is None and written.problem_file is not None:
        statement = read_text(directory / written.problem_file)
    scorers = tuple(
        ScorerSpec.model_validate(
            scorer.model_dump(exclude_none=True)
            | {"name": scorer.label}
            | ({} if scorer.path is None else {"path": directory / scorer.path})
        )
        for scorer in written.scorers
    )
    if not written.turns:
        return statement or "", (), scorers
    steps, scorers = steps_of_turns(written, statement, scorers, fresh)
    return whole_conversation(written.turns, statement), steps, scorers


def _environment(written: WrittenScenario, directory: Path) -> Environment:
    own = written.model_fields_set
    values = {
        key: value for key in _ENVIRONMENT if key in own and (value := getattr(written, key)) is not None
    }
    for key in ("dockerfile", "context"):
        if key in values:
            values[key] = directory / values[key]
    values.pop("grading", None)
    values.pop("keep_processes", None)
    for key in values.keys() & {"cpus", "memory"}:
        amount = values[key]
        values |= {key: amount.limit}
        if amount.request != amount.limit:
            values[f"{key}_request"] = amount.request
    if values.get("git_history") == "full":
        del values["git_history"]
    if written.healthcheck is not None:
        values["healthcheck"] = HealthCheck.model_validate(written.healthcheck.model_dump())
    if written.mcp_servers:
        values["mcp_servers"] = tuple(map(mcp_server, written.mcp_servers))
    compose = values.pop("compose", None)
    environment = Environment.model_validate(values)
    return environment if compose is None else read_compose(directory / compose).with_main(environment)


def _reference(written: WrittenReference | None, directory: Path) -> Reference | None:
    if written is None:
        return None
    if written.patch is not None:
        return Reference(patch=directory / written.patch)
    if written.files:
        return Reference(files={target: directory / source for target, source in written.files.items()})
    return Reference(script=written.script or read_text(directory / str(written.file)))
