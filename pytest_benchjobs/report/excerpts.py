"""Last lines of the logs of a trial: of its agent, and of scorers that gave less than the full score.

Agents and their code wrote them, so excerpts are bounded and free of control characters. Confidential scenarios have
none.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..analysis.verdict import by_scenario, explaining
from ..model.errors import InputError
from ..model.job import JobConfig
from ..model.result import ScorerResult, TrialResult
from ..store.layout import TrialLayout, slug
from ..store.log import log_end
from ..store.outline import whole
from ..store.text import clean, one_line
from .units import joined

LINES = 20
SIZE = 2048
"""Most characters of an excerpt."""
SCORERS = 3
"""Most scorers with an excerpt where a failure is explained."""


class Excerpt(NamedTuple):
    """The end of a log."""

    title: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """Title and indented lines."""
        return "\n".join((f"{self.title}:", *(f"  {line}" for line in self.lines)))


class Evidence:
    """Excerpts of the trials of the job at `root`, including those behind a verdict of several attempts."""

    def __init__(
        self, root: Path, results: Iterable[TrialResult] = (), config: JobConfig | None = None
    ) -> None:
        self._root = root
        self._attempts: dict[str, list[TrialResult]] = {}
        if config is not None and config.attempt_policy.aggregates:
            self._attempts = {node_id: group for node_id, _, group in by_scenario(results, config)}

    def of(self, result: TrialResult, *, lines: int = LINES, size: int = SIZE) -> list[Excerpt]:
        """Read the excerpts that explain a result."""
        return excerpts(self._explaining(result), self._root, lines=lines, size=size)

    def in_a_line(self, result: TrialResult) -> str:
        """Return the last line of a scorer that gave less than the full score, else what it ran, else the agent's."""
        trial = whole(self._root, self._explaining(result))
        if trial.confidential:
            return ""
        silent = (
            f"scorer {one_line(one.name, 40)} printed nothing: {scorer_text(one)}"
            for one in imperfect(trial)
            if one.definition or one.details or one.error is not None
        )
        first, last = (
            (f"{one.title}: {one_line(one.lines[0], 200)}" for one in log)
            for log in (of_scorers(imperfect(trial), 1), of_agent(trial, self._root, 1, SIZE))
        )
        return next(itertools.chain(first, silent, last), "")

    def _explaining(self, result: TrialResult) -> TrialResult:
        return explaining(result, self._attempts.get(result.node_id, ()))


def excerpts(result: TrialResult, root: Path, *, lines: int = LINES, size: int = SIZE) -> list[Excerpt]:
    """Read the excerpts of a trial of the job at `root`; none where the logs are gone."""
    if result.confidential:
        return []
    result = whole(root, result)
    return [
        *of_agent(result, root, lines, size),
        *itertools.islice(of_scorers(imperfect(result), lines, size), SCORERS),
    ]


def of_scorers(scorers: Iterable[ScorerResult], lines: int = LINES, size: int = SIZE) -> Iterator[Excerpt]:
    """Return the excerpts of scorers. They are in the result: no file is read."""
    for scorer in scorers:
        if ended := last_lines(scorer.output, lines, size):
            name, step = (
                one_line(scorer.name, 40),
                "" if scorer.step is None else f"steps/{slug(scorer.step)}/",
            )
            yield Excerpt(f"last lines of scorer {name} ({step}scorers/{name}/output.log)", ended)


def imperfect(result: TrialResult) -> Iterator[ScorerResult]:
    """Yield the scorers that gave less than the full score."""
    return (one for one in result.scorers if one.error is not None or one.score is None or one.score < 1)


def scorer_text(scorer: ScorerResult) -> str:
    """Return why a scorer has no score, what it ran, and what it found: `command: make check, exit_status=2`."""
    error = "" if scorer.error is None else one_line(f"{scorer.error.class_}: {scorer.error.message}", 200)
    ran = [f"{name}: {one_line(text, 150)}" for name, text in scorer.definition.items()]
    return one_line(joined(error, *ran, *(f"{name}={value}" for name, value in scorer.details.items())), 400)


def last_lines(text: str, lines: int, size: int) -> tuple[str, ...]:
    """Return the last lines of a text, safe to show; a line that begins before the last `size` characters is cut."""
    # Remove escape sequences first: they change where a line ends.
    cleaned = clean(text[-2 * size :]).rstrip()
    if not cleaned.strip():
        return ()
    ended = cleaned[-size:].split("\n")
    if len(cleaned) > size or len(text) > 2 * size:
        # The first line may lack its beginning.
        ended = ended[1:] if len(ended) > 1 else [f"...{ended[0][3:]}"]
    return tuple(line.rstrip() for line in ended[-lines:])


def of_agent(result: TrialResult, root: Path, lines: int, size: int) -> Iterator[Excerpt]:
    """Return the excerpt of the agent's log, of the job that ran it; none where it is gone."""
    if not result.path:
        return
    where = ""
    content = log_end(TrialLayout(root / result.path).agent_log, 2 * size + 1)
    if not content and (result.reused or result.rescored):
        from ..store.results import origins

        # The results directory is the one that has jobs/.
        with contextlib.suppress(InputError):
            for place, _ in origins(root.parents[1], result):
                if content := log_end(TrialLayout(place).agent_log, 2 * size + 1):
                    where = f" of job {place.relative_to(root.parent).parts[0]}"
                    break
    if ended := last_lines(content.decode("utf-8", "replace"), lines, size):
        yield Excerpt(f"last lines of the agent (agent.log{where})", ended)
