"""Parts of a benchmark: samples and shards. Deterministic; a sample almost unchanged after a scenario was added."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Mapping


def sampled(benchmark: str, tags: Mapping[str, tuple[str, ...]], sample: str, seed: int) -> list[str]:
    """Draw a sample of scenarios, stratified by tags, with at least one; in their given order.

    `tags` has those of each scenario, by its id; `sample` is `10%` or a number.
    """
    count = _size(sample, len(tags))
    groups: dict[tuple[str, ...], list[str]] = {}
    for scenario, of_scenario in tags.items():
        groups.setdefault(tuple(sorted(set(of_scenario))), []).append(scenario)
    exact = {group: count * len(ids) / len(tags) for group, ids in groups.items()}
    quotas = {group: math.floor(share) for group, share in exact.items()}
    # Largest remainder method. The seed breaks ties.
    by_remainder = sorted(
        groups,
        key=lambda group: (round(quotas[group] - exact[group], 9), _hash(seed, benchmark, "\0".join(group))),
    )
    for group in by_remainder[: count - sum(quotas.values())]:
        quotas[group] += 1
    drawn = {
        scenario
        for group, ids in groups.items()
        for scenario in sorted(ids, key=lambda one: _hash(seed, benchmark, one))[: quotas[group]]
    }
    return [scenario for scenario in tags if scenario in drawn]


def split(seconds: Mapping[tuple[str, str], float], parts: int) -> dict[tuple[str, str], int]:
    """Return the part, from 1, of each scenario: the longest comes first, each goes where there is the least so far.

    The longest part takes at most 4/3 of what it would in the best split (R. L. Graham, Bounds on multiprocessing
    timing anomalies, 1969). Equal scenarios are dealt in turn, in the order of their names.
    """
    loads = [(0.0, 0, part) for part in range(1, parts + 1)]
    found = {}
    for scenario in sorted(seconds, key=lambda one: (-seconds[one], one)):
        load, count, part = loads[0]
        found[scenario] = part
        heapq.heapreplace(loads, (load + seconds[scenario], count + 1, part))
    return found


def _size(sample: str, total: int) -> int:
    wanted = round(float(sample[:-1]) / 100 * total) if sample.endswith("%") else int(sample)
    return min(total, max(1, wanted))


def _hash(*parts: object) -> bytes:
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "replace")).digest()
