"""Probes: tests of the tests. Each asserts something of two random numbers, and half of them have to fail.

If a solution changes assertions, classes or results in order to pass, that changes the results of probes. The child is
not told which ones have to fail, so it has to run them.
"""

# ruff: noqa: PT009, PT027  the probes test the assertions of unittest

from __future__ import annotations

import secrets
import unittest
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Probes = Mapping[str, Sequence[Any]]
"""Random names of tests -> kind of assertion, and two numbers that it compares."""


def _raises(case: Any, one: int, other: int) -> None:
    with case.assertRaises(ZeroDivisionError):
        _ = 1 // (one - other)


def _says(_: Any, one: int, other: int) -> None:
    assert one == other  # noqa: S101  it is what tests say


_KINDS: Mapping[str, Callable[[Any, int, int], object]] = {
    "equal": lambda case, one, other: case.assertEqual(one, other),
    "unequal": lambda case, one, other: case.assertNotEqual(one - other, 1 if one == other else one - other),
    "true": lambda case, one, other: case.assertTrue(one == other),
    "false": lambda case, one, other: case.assertFalse(one != other),
    "in": lambda case, one, other: case.assertIn(one, [other]),
    "is": lambda case, one, other: case.assertIsNone(None if one == other else one),
    "instance": lambda case, one, other: case.assertIsInstance(one, int if one == other else str),
    "near": lambda case, one, other: case.assertAlmostEqual(float(one), float(other)),
    "list": lambda case, one, other: case.assertListEqual([one], [other]),
    "dict": lambda case, one, other: case.assertDictEqual({"x": one}, {"x": other}),
    "greater": lambda case, one, other: case.assertGreater(1 if one == other else 0, 0),
    "raises": _raises,
    "breaks": lambda _, one, other: {other: 0}[one],
    "says": _says,
    "fails": lambda case, one, other: one == other or case.fail(),
}


def draw() -> Probes:
    """Return probes, two of each kind that pass and two that fail, in any order."""
    drawn = [(kind, is_equal) for kind in _KINDS for is_equal in (True, False) for _ in range(2)]
    secrets.SystemRandom().shuffle(drawn)
    probes = {}
    for kind, is_equal in drawn:
        number = secrets.randbelow(10**9)
        other = number if is_equal else number + 1 + secrets.randbelow(10**9)
        probes[f"test_{secrets.token_hex(8)}"] = (kind, number, other)
    return probes


def must_fail(probes: Probes) -> frozenset[str]:
    """Return the names of those that have to fail."""
    return frozenset(name for name, (_, one, other) in probes.items() if one != other)


def run_probes(cases: type, probes: Probes, names: Iterable[str], result: Callable[[], Any]) -> list[str]:
    """Run probes in a class derived from that of the tests; returns the names of those that failed."""
    members: dict[str, Any] = {name: _method(*probes[name]) for name in probes}
    members.update(
        dict.fromkeys(("setUp", "tearDown"), lambda _: None),
        asyncSetUp=unittest.IsolatedAsyncioTestCase.asyncSetUp,
        asyncTearDown=unittest.IsolatedAsyncioTestCase.asyncTearDown,
        __module__=unittest.__name__,
        __unittest_skip__=False,
        __unittest_expecting_failure__=False,
    )
    probing = type(cases)(cases.__name__, (cases,), members)
    failed = []
    for name in names:
        one = result()
        probing(name).run(one)
        if one.failures or one.errors:
            failed.append(name)
    return failed


def _method(kind: str, one: int, other: int) -> Callable[[Any], object]:
    assertion = _KINDS[kind]
    return lambda case: assertion(case, one, other)
