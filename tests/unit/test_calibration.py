"""That p-values mean what they say: on simulated benchmarks, with a fixed seed, so that figures are the same each time.

`python -m tests.performance calibration` measures the same for longer, and more sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.performance import calibration

pytestmark = [pytest.mark.slow, pytest.mark.when_changed]
SIZES = [(20, 1), (20, 3), (20, 5), (89, 1), (89, 3), (89, 5)]


def _daily(cases: Sequence[Any]) -> list[Any]:
    """One in three every day; `make extended` tries the others."""
    return [
        pytest.param(one, marks=pytest.mark.extended) if place % 3 else one for place, one in enumerate(cases)
    ]


@pytest.mark.parametrize(("scenarios", "attempts"), SIZES)
def test_no_change_is_called_a_regression_in_one_of_twenty_at_most(scenarios: int, attempts: int) -> None:
    assert calibration.alarms(scenarios, attempts, attempts, 0.0, 1000) <= calibration.MOST_ALARMS


def allowed(most: float, repetitions: int) -> float:
    """What a share that is `most` may be by chance, in one of a thousand simulations."""
    return most + 3.1 * (most * (1 - most) / repetitions) ** 0.5


@pytest.mark.parametrize(
    "setting",
    _daily(calibration.UNEQUAL),
    ids=lambda one: f"{one.name}, {one.scenarios}, {one.now}-{one.before}",
)
def test_unequal_attempts_and_skewed_scores_make_no_more_false_alarms(setting: calibration.Setting) -> None:
    assert calibration.alarms_in(setting, 200) <= allowed(1 - setting.level, 200)


@pytest.mark.parametrize(
    "setting",
    _daily(calibration.CLUSTERED),
    ids=lambda one: f"{one.scenarios} by {one.size}, {one.shared}, {one.now}-{one.before}",
)
def test_scenarios_that_depend_on_each_other_make_no_more_false_alarms(setting: calibration.Setting) -> None:
    assert calibration.alarms_in(setting, 200) <= allowed(1 - setting.level, 200)


def test_many_rules_on_unchanged_code_make_no_more_false_alarms() -> None:
    """Five metrics, three agents and four tags: 27 to 39 % where each rule is adjusted for itself."""
    assert calibration.many_rules(32, 1, 60) <= allowed(calibration.MOST_ALARMS, 60)


@pytest.mark.parametrize("size", [(20, 1, 1), (20, 5, 5), (89, 3, 3)])
def test_a_drop_is_found_as_often_as_it_should(size: tuple[int, int, int]) -> None:
    found = calibration.alarms(*size, 0.1, 300)
    assert 100 * found >= calibration.POWER[size] - calibration.POINTS


@pytest.mark.parametrize("size", [(20, 1, 1), (20, 5, 5), (89, 3, 3)])
def test_the_simulation_is_that_of_the_table(size: tuple[int, int, int]) -> None:
    """Both ways: with 20 scenarios and five attempts, a drop of 9 or of 11 points would be seven points off."""
    found = calibration.alarms(*size, 0.1, 2000, test=calibration.by_signs)
    assert 100 * found == pytest.approx(calibration.POWER[size], abs=calibration.POINTS)


@pytest.mark.parametrize("scenarios", [20, 89])
@pytest.mark.extended
def test_rounds_save_attempts_and_keep_the_false_alarms(scenarios: int) -> None:
    alarms, saved, _ = calibration.until_decided(scenarios, calibration.ROUNDS, 0.0, 600)
    assert alarms <= calibration.MOST_ALARMS
    assert saved >= calibration.LEAST_SAVED
    found, saved, fixed = calibration.until_decided(scenarios, calibration.ROUNDS, 0.2, 100)
    assert saved >= calibration.LEAST_SAVED_BY_A_DROP
    assert found >= fixed - 0.05


@pytest.mark.parametrize("shape", calibration.SHAPES)
@pytest.mark.parametrize("size", _daily(SIZES), ids=str)
def test_a_drop_that_is_printed_is_found_four_times_of_five(
    size: tuple[int, int], shape: calibration.Shape
) -> None:
    scenarios, attempts = size
    found, _ = calibration.found_at_printed(scenarios, attempts, shape, 150)
    assert found >= calibration.LEAST_FOUND - 0.04  # of 150 it is within four points nine times of ten
