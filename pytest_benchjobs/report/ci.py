"""CI systems: detection, the files they read, and the output lines they take for commands.

Nothing here uses a network: a CI system reads files and lines of output. Posting them, as comments for instance, is
left to the steps of the pipeline, which have the permissions (`conftest_examples/ci/`).
"""

from __future__ import annotations

import dataclasses
import enum
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..analysis.summary import Summary
from ..analysis.verdict import verdicts
from ..model.gate import Change, GatePolicy, GateReport, GateVerdict
from ..model.job import JobRecord
from ..model.result import Outcome, TrialResult
from ..store.text import one_line
from ..store.totals import totals
from .gate_text import changed_line, shown_change, why, worst_first
from .markdown_parts import fitted
from .summary import by_agent
from .units import mean_text

STEP_SUMMARY_LIMIT = 1024 * 1024
"""Bytes. GitHub drops a longer step summary altogether."""
ANNOTATIONS = 10
"""Number of annotations of each level that GitHub shows for a step."""
_TITLE = 200
_MESSAGE = 2000
COMMENT_LIMIT = 65_536
"""Characters. GitHub refuses longer comments."""
NOTE_LIMIT = 1_000_000
"""Characters. GitLab refuses longer notes."""
_UNFIT = re.compile(r"[^A-Za-z0-9_.]+")
_FAMILIES: dict[str, Callable[[Summary], float | None]] = {
    "bench_trials": lambda row: row.total,
    "bench_passed": lambda row: row.passed,
    "bench_failed": lambda row: row.failed,
    "bench_errors": lambda row: row.errors,
    "bench_mean_score": lambda row: row.mean_scored,
    "bench_pass_rate": lambda row: row.pass_rate,
    "bench_cost_usd": lambda row: row.cost_usd,
    "bench_seconds": lambda row: row.seconds,
    "bench_median_seconds": lambda row: row.p50_seconds,
}


class Ci(enum.StrEnum):
    """The supported CI systems."""

    GITHUB = "github"
    GITLAB = "gitlab"
    JENKINS = "jenkins"


_SIGNS = {Ci.GITHUB: "GITHUB_ACTIONS", Ci.GITLAB: "GITLAB_CI", Ci.JENKINS: "JENKINS_URL"}
_WORKSPACES = {Ci.GITHUB: "GITHUB_WORKSPACE", Ci.GITLAB: "CI_PROJECT_DIR", Ci.JENKINS: "WORKSPACE"}


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """The CI system this runs in."""

    ci: Ci
    workspace: Path | None = None
    """Directory the repository is checked out in."""
    summary: Path | None = None
    """`$GITHUB_STEP_SUMMARY`."""
    output: Path | None = None
    """`$GITHUB_OUTPUT`."""

    @classmethod
    def find(cls, chosen: str, environ: Mapping[str, str]) -> Host | None:
        """Return the system that `--bench-ci` names; with `auto` the one whose variables are set, with `off` none.

        A run inside a test has none, since its output is not about the job of the pipeline.
        """
        if chosen == "off" or (chosen == "auto" and "PYTEST_CURRENT_TEST" in environ):
            return None
        if chosen == "auto":
            found = next(
                (ci for ci, sign in _SIGNS.items() if environ.get(sign) not in (None, "", "false")), None
            )
        else:
            found = Ci(chosen)
        if found is None:
            return None
        workspace = _path(environ, _WORKSPACES[found])
        if found is not Ci.GITHUB:
            return cls(found, workspace)
        return cls(found, workspace, _path(environ, "GITHUB_STEP_SUMMARY"), _path(environ, "GITHUB_OUTPUT"))

    def relative(self, path: Path) -> str | None:
        """Return the path relative to the repository; None for a file outside of it."""
        path = Path(os.path.normpath(path))  # `..` would lead out of it, too
        if self.workspace is None or not path.is_relative_to(self.workspace):
            return None
        return path.relative_to(self.workspace).as_posix()

    def attachment(self, path: Path) -> str | None:
        """Return the path for `[[ATTACHMENT|path]]`; None where the system has no attachments."""
        if self.ci is Ci.GITLAB:
            return self.relative(path)
        return str(path) if self.ci is Ci.JENKINS and self.relative(path) is not None else None


@dataclasses.dataclass(frozen=True, slots=True)
class Annotation:
    """A message beside a line of code, or at the top of a run."""

    level: str
    """`error`, `warning` or `notice`."""
    title: str
    message: str
    file: str | None = None
    """From the root of the repository."""
    line: int | None = None

    def __str__(self) -> str:
        """Format a GitHub command. Message and properties are escaped: they cannot end it or begin another one."""
        properties = {"title": one_line(self.title, _TITLE), "file": self.file, "line": self.line}
        listed = ",".join(
            f"{name}={_escaped(str(value), inside=True)}"
            for name, value in properties.items()
            if value is not None
        )
        return f"::{self.level} {listed}::{_escaped(one_line(self.message, _MESSAGE))}"


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """Places where scenarios are defined."""

    rootdir: Path
    """Directory that the paths in node ids are relative to."""
    lines: Mapping[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    """Path of a node id, and scenario -> line."""

    def of(self, node_id: str, scenario: str, host: Host) -> tuple[str | None, int | None]:
        """Return file and line of a scenario, as far as known and inside the repository."""
        name = node_id.partition("::")[0]
        file = host.relative(self.rootdir / name)
        return file, None if file is None else self.lines.get((name, scenario))


def annotate(
    host: Host, record: JobRecord, results: Sequence[TrialResult], gate: GateReport | None, places: Places
) -> list[Annotation]:
    """Make the annotations for reviewers, of each level at most as many as GitHub shows."""
    if gate is None:
        return _of_job(record, results)
    failing = gate.verdict in (GateVerdict.REGRESSED, GateVerdict.INVALID) or (
        gate.verdict is GateVerdict.INCONCLUSIVE and gate.policy is GatePolicy.STRICT
    )
    level = "error" if failing else "notice" if gate.verdict is GateVerdict.OK else "warning"
    node_ids = {
        (result.benchmark, result.scenario, result.agent.label): result.node_id
        for result in reversed(results)
    }

    def of(kind: str, title: str, change: Change) -> Annotation:
        node_id = node_ids.get((change.benchmark, change.scenario, change.agent), "")
        file, line = places.of(node_id, change.scenario, host) if node_id else (None, None)
        return Annotation(kind, title, changed_line(change, several=True), file, line)

    told = [Annotation(level, f"benchmark gate: {gate.verdict.value}", why(gate))]
    kind = "error" if gate.verdict is GateVerdict.REGRESSED else "warning"
    told += [of(kind, "scenario broke", change) for change in worst_first(gate.broke)]
    broke = {(change.benchmark, change.scenario, change.agent) for change in gate.broke}
    told += [
        of("warning", "suspect scenario", change)
        for change in worst_first(gate.suspects)
        if (change.benchmark, change.scenario, change.agent) not in broke
    ]
    shown = []
    for at in ("error", "warning", "notice"):
        shown += [one for one in told if one.level == at][:ANNOTATIONS]
    return shown


def _of_job(record: JobRecord, results: Sequence[TrialResult]) -> list[Annotation]:
    counts = totals(results)
    agents = {result.agent.label for result in results}
    is_known = counts.mean_score is not None and len(agents) == 1
    mean = f", mean score {mean_text(counts.mean_score)}" if is_known else ""
    passed = f"{counts.passed} of {counts.trials} trials passed, {counts.failed} failed{mean}"
    told = [Annotation("notice", "benchmark", f"job {record.id}: {passed}")]
    broken = [result for result in results if result.outcome is Outcome.ERROR]
    if broken:
        first = broken[0].failure
        reason = f", the first: {first.class_}: {first.message}" if first else ""
        errors = f"{len(broken)} of {counts.trials} trials have no score{reason}"
        told.append(Annotation("warning", "benchmark: errors without a score", errors))
    return told


def outputs(
    record: JobRecord, results: Sequence[TrialResult], gate: GateReport | None, status: int
) -> dict[str, str]:
    """Make the outputs for later steps: `verdict`, `mean`, `delta`, `job` and `exit`. An unknown one is empty.

    `delta` is the change of the mean score in percentage points, from the rule about it with the worst verdict.
    """
    mean = totals(results).mean_score
    changes = [] if gate is None else [rule for rule in gate.rules if rule.change is not None]
    about_mean = [rule for rule in changes if rule.rule.metric == "mean"]
    worst = min(about_mean, key=lambda rule: rule.change or 0.0, default=None)
    return {
        "verdict": "" if gate is None else gate.verdict.value,
        "mean": "" if mean is None else f"{mean:.4f}",
        "delta": "" if worst is None else shown_change("mean", worst.change).removesuffix(" pp"),
        "job": one_line(record.id, 200),
        "exit": str(status),
    }


def publish(
    host: Host,
    *,
    record: JobRecord,
    results: Sequence[TrialResult],
    gate: GateReport | None,
    summary: str,
    status: int,
    places: Places,
) -> tuple[list[str], list[str]]:
    """Write the files that the system reads; return command lines to print, and problems.

    `summary` is Markdown. Nothing is raised: a job does not fail because a summary could not be shown.
    """
    if host.ci is not Ci.GITHUB:
        return [], []
    troubles = []
    for name, path, content in (
        ("step summary", host.summary, summary),
        ("outputs", host.output, _assigned(outputs(record, results, gate, status))),
    ):
        if path is None:
            continue
        try:
            there = path.stat().st_size if path.exists() else 0
            if name == "step summary":
                content = fitted(content, STEP_SUMMARY_LIMIT - there - 1)
            # An earlier command may have left its last line without a line break.
            with path.open("ab") as file:
                file.write((b"\n" if there else b"") + content.encode())
        except OSError as error:
            troubles.append(f"GitHub's {name}: {error.strerror or error}")
    return [str(one) for one in annotate(host, record, results, gate, places)], troubles


def comment(record: JobRecord, results: Sequence[TrialResult], summary: str, host: Host | None) -> str:
    """Make the comment for a merge request from the summary, cut to the allowed length.

    Its first line, which is not displayed, has the name of the job, else those of its benchmarks. The next run finds
    the comment by this line, to replace it.
    """
    name = record.name or "-".join(dict.fromkeys(result.benchmark for result in results))
    name = _UNFIT.sub("-", name).strip("-")[:100]
    limit = NOTE_LIMIT if host is not None and host.ci is Ci.GITLAB else COMMENT_LIMIT
    marker = f"<!-- benchjobs:{name or 'job'} -->\n"
    return marker + fitted(summary, limit - len(marker), characters=True)


def metrics_text(record: JobRecord, results: Sequence[TrialResult], gate: GateReport | None) -> str:
    """Format figures of each agent as OpenMetrics text, which GitLab shows beside those of the target branch."""
    rows = by_agent(verdicts(results, record.config))
    families: list[tuple[str, list[tuple[str, float | None]]]] = [
        (name, [(f'{{agent="{row.label}"}}', value(row)) for row in rows])
        for name, value in _FAMILIES.items()
    ]
    if gate is not None:
        values = [(f'{{verdict="{one.value}"}}', float(gate.verdict is one)) for one in GateVerdict]
        families.append(("bench_gate", [*values]))
    lines = []
    for name, samples in families:
        known = [f"{name}{labels} {value:.6g}" for labels, value in samples if value is not None]
        lines += [f"# TYPE {name} gauge", *known] if known else []
    return "\n".join([*lines, "# EOF", ""])


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    text = environ.get(name)
    return Path(text) if text else None


def _assigned(values: Mapping[str, str]) -> str:
    """Format lines for `$GITHUB_OUTPUT`. No value can end its own: the delimiter is random."""
    lines = []
    for name, value in values.items():
        end = f"end_{secrets.token_hex(16)}"
        lines.append(f"{name}<<{end}\n{value}\n{end}\n")
    return "".join(lines)


def _escaped(text: str, *, inside: bool = False) -> str:
    """Escape text for a GitHub command; `inside` a property also `:` and `,`."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if inside else text
