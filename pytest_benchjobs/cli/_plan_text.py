"""Text of plans and images, for a terminal."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence

from ..model.gate import GateConfig
from ..model.image import ImageSize
from ..report.documents.plan import ImagesDocument, ImageTotal, PlanDocument, PlannedTrial, to_count
from ..report.table import Column, section, tabulate, width
from ..report.units import cost, counted, duration
from ..store.text import one_line
from ..system.units import size

_WHYS = 10
_IMAGES = 20


def plan_lines(document: PlanDocument, *, extended: bool) -> Iterator[str]:
    """Lines of text of a plan, with `extended` also one for each trial."""
    skipped = f", {document.skipped} would be skipped" if document.skipped else ""
    yield (
        f"{counted(document.trials, 'trial')}: {document.runs} would run, {document.reused} would be reused{skipped}"
    )
    if document.shards:
        yield from section("shards", _shards(document))
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


def _shards(document: PlanDocument) -> Iterator[str]:
    own, _, total = str(document.config.shard).partition("/")
    shown = [
        (
            Column("SHARD"),
            lambda shard: f"{shard.number}/{total}" + (" (this)" if f"{shard.number}" == own else ""),
        ),
        (Column("SCENARIOS", number=True), lambda shard: str(shard.scenarios)),
        (Column("TRIALS", number=True), lambda shard: str(shard.trials)),
        (Column("TIME", number=True), lambda shard: duration(shard.seconds)),
    ]
    return tabulate(document.shards, width(), shown)


def _reasons(document: PlanDocument) -> Iterator[str]:
    for reused, title in ((True, "reused because"), (False, "run because")):
        reasons = [reason for reason in document.reasons if reason.reused is reused]
        lines = [f"{reason.trials:>5}  {one_line(reason.why, 200)}" for reason in reasons[:_WHYS]]
        if len(reasons) > _WHYS:
            rest = sum(reason.trials for reason in reasons[_WHYS:])
            lines.append(f"{rest:>5}  for other reasons (-e names them)")
        yield from section(title, lines)
    for title, whys in (
        ("would be skipped", [trial.incompatible for trial in document.selected if trial.incompatible]),
        (
            "would end in an error",
            [trial.problem for trial in document.selected if trial.problem and not trial.reused],
        ),
    ):
        counts = Counter(whys).most_common(_WHYS)
        yield from section(title, (f"{trials:>5}  {one_line(why, 500)}" for why, trials in counts))


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
    settings = {
        "agents": ", ".join(agent.label for agent in document.config.agents),
        "directory": os.fspath(document.config.directory),
        **changed,
    }
    if gate := ", ".join(_gate(document.config.gate)):
        settings["gate"] = gate
    words = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in settings.items()
    }
    lines = (f"{name}: {one_line(word, 500)}" for name, word in words.items())
    yield from section("configuration, where it is not the default", lines)


def _gate(gate: GateConfig) -> Iterator[str]:
    """Settings of gates, as they are written in files."""
    for name, value in gate.model_dump(mode="json", exclude_defaults=True, exclude={"rules"}).items():
        yield name if value is True else f"{name} {value}"
    for rule in gate.rules:
        only = f"{rule.only}=" if rule.only else ""
        yield f"{rule.metric} {only}{rule.amount:g}" if rule.floor else rule.text


WORDS = {"here": "here", "build": "to build", "pull": "to pull"}
"""State of an image -> text."""
_REASON = 1000


def totals_line(totals: Sequence[ImageTotal]) -> str:
    """`12 images: 3 here, 1.2 GB; 9 to pull, about 14 GB, 2 of unknown size`."""
    parts = []
    for total in totals:
        part = f"{total.images} {WORDS[total.state]}"
        if total.unknown < total.images:
            part += f", {'' if total.state == 'here' else 'about '}{size(total.bytes)}"
            part += f", {total.unknown} of unknown size" if total.unknown else ""
        else:
            part += ", of unknown size"
        parts.append(part)
    listed = f": {'; '.join(parts)}" if parts else ""
    return f"{counted(sum(total.images for total in totals), 'image')}{listed}"


def amount(image: ImageSize) -> str:
    """Size of an image; `-` where it is unknown."""
    return _shown(to_count(image))


def image_name(image: str) -> str:
    """Return the name of an image; the path of a Dockerfile relative to the current directory where it is below."""
    path = os.path.relpath(image) if image.startswith("/") else image
    return one_line(image if path.startswith("..") else path)


def image_lines(document: ImagesDocument) -> Iterator[str]:
    """Lines of `benchmarks images`."""
    shown = [
        (Column("IMAGE", least=20), lambda image: image_name(image.image)),
        (Column("STATE"), lambda image: WORDS[image.state]),
        (Column("ON DISK", number=True), lambda image: _shown(image.bytes)),
        (Column("DOWNLOAD", number=True), lambda image: _shown(image.download)),
        (Column("SCENARIOS", number=True), lambda image: str(image.scenarios)),
    ]
    if document.images:
        yield from tabulate(document.images, width(), shown)
    for image in document.images:
        if image.error is not None:
            yield one_line(f"wrong: {image_name(image.image)}: {image.error}", _REASON)
    for why, scenarios in document.problems.items():
        yield one_line(f"cannot run: {counted(scenarios, 'scenario')}: {why}", _REASON)
    without = f", {document.without} without" if document.without else ""
    yield f"{totals_line(document.totals)}, for {counted(document.scenarios, 'scenario')}{without}"


def _shown(count: int | None) -> str:
    return "-" if count is None else size(count)
