"""Text of a plan, for a terminal."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..report.table import Column, tabulate, width
from ..report.units import cost, counted, duration
from ..store.text import one_line
from ._images_text import WORDS, amount, image_name, totals_line

if TYPE_CHECKING:
    from ..model.gate import GateConfig
    from ..report.documents.plan import PlanDocument, PlannedTrial

_WHYS = 10
_IMAGES = 20


def plan_lines(document: PlanDocument, *, extended: bool) -> Iterator[str]:
    """Lines of text of a plan, with `extended` also one for each trial."""
    skipped = f", {document.skipped} would be skipped" if document.skipped else ""
    yield (
        f"{counted(document.trials, 'trial')}: {document.runs} would run, {document.reused} would be reused{skipped}"
    )
    if not document.trials:
        return
    yield ""
    yield from _groups(document)
    yield from _reasons(document)
    if document.images:
        yield ""
        yield totals_line(document.image_totals)
        yield from _images(document, extended=extended)
    yield ""
    yield f"time: {_time(document)}"
    yield f"cost: {_cost(document)}"
    yield from _configuration(document)
    if extended:
        yield ""
        yield from map(_trial, document.selected)


def _groups(document: PlanDocument) -> Iterator[str]:
    before = Column("TIME BEFORE", number=True)
    shown = [
        (Column("BENCHMARK", least=12), lambda group: group.benchmark),
        (Column("AGENT", least=12), lambda group: group.agent),
        (Column("TRIALS", number=True), lambda group: str(group.trials)),
        (Column("REUSED", number=True), lambda group: str(group.reused)),
        (Column("RUN", number=True), lambda group: str(group.runs)),
        (before, lambda group: duration(group.expected_seconds)),
        (Column("COST BEFORE", number=True), lambda group: cost(group.expected_usd)),
    ]
    return tabulate(document.groups, width(), shown)


def _reasons(document: PlanDocument) -> Iterator[str]:
    for reused, title in ((True, "reused because"), (False, "run because")):
        reasons = [reason for reason in document.reasons if reason.reused is reused]
        if reasons:
            yield ""
            yield title
        for reason in reasons[:_WHYS]:
            yield f"  {reason.trials:>5}  {one_line(reason.why, 200)}"
        if len(reasons) > _WHYS:
            rest = sum(reason.trials for reason in reasons[_WHYS:])
            yield f"  {rest:>5}  for other reasons (-e names them)"
    for title, whys in (
        ("would be skipped", [trial.incompatible for trial in document.selected if trial.incompatible]),
        (
            "would end in an error",
            [trial.problem for trial in document.selected if trial.problem and not trial.reused],
        ),
    ):
        if whys:
            yield ""
            yield title
        for why, trials in Counter(whys).most_common(_WHYS):
            yield f"  {trials:>5}  {one_line(why, 500)}"


def _images(document: PlanDocument, *, extended: bool) -> Iterator[str]:
    shown = [
        (Column(""), lambda _: ""),
        (Column(""), lambda image: WORDS[image.state]),
        (Column("", least=20), lambda image: image_name(image.image)),
        (Column("", number=True), lambda image: amount(image)),
        (Column("", number=True), lambda image: counted(image.trials, "trial")),
    ]
    images = document.images if extended else document.images[:_IMAGES]
    yield from tabulate(images, width(), shown)
    if len(images) < len(document.images):
        yield f"  and {len(document.images) - len(images)} more (-e names them)"


def _trial(trial: PlannedTrial) -> str:
    words = ((trial.incompatible, "skipped"), (trial.reused, "reused"), (trial.problem, "error"))
    what = next((word for so, word in words if so), "runs")
    why = trial.incompatible or trial.why
    return f"{what:7}  {one_line(trial.node_id)}" + (f"  ({one_line(why, 200)})" if why else "")


def _time(document: PlanDocument) -> str:
    if not document.runs:
        return "none"
    time = document.time
    parts = [f"at most {duration(time.at_most)}, {document.concurrency} trials at a time"]
    if time.expected is not None:
        of = "" if not time.unknown else f" for {document.runs - time.unknown} of {document.runs} trials"
        parts.append(f"{duration(time.expected)} expected from earlier runs{of}")
    else:
        parts.append("expected time unknown: no earlier run of these trials")
    return "; ".join(parts)


def _cost(document: PlanDocument) -> str:
    if not document.runs:
        return "none"
    if document.cost.expected is None:
        return "unknown: no earlier cost of these trials is known"
    of = "" if not document.cost.unknown else f"; unknown for {counted(document.cost.unknown, 'trial')}"
    return f"{cost(document.cost.expected)} expected from earlier runs{of}"


def _configuration(document: PlanDocument) -> Iterator[str]:
    """Settings that differ from the defaults; JSON and YAML have all of them."""
    changed = document.config.model_dump(
        mode="json", exclude={"agents", "directory", "gate"}, exclude_defaults=True
    )
    yield ""
    yield "configuration, where it is not the default"
    yield f"  agents: {one_line(', '.join(agent.label for agent in document.config.agents), 500)}"
    yield f"  directory: {one_line(os.fspath(document.config.directory))}"
    for name, value in changed.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"  {name}: {one_line(shown, 500)}"
    if gate := ", ".join(_gate(document.config.gate)):
        yield f"  gate: {one_line(gate, 500)}"


def _gate(gate: GateConfig) -> Iterator[str]:
    """Settings of gates, as they are written in files."""
    for name, value in gate.model_dump(mode="json", exclude_defaults=True, exclude={"rules"}).items():
        yield name if value is True else f"{name} {value}"
    for rule in gate.rules:
        only = f"{rule.only}=" if rule.only else ""
        yield f"{rule.metric} {only}{rule.amount:g}" if rule.floor else rule.text
