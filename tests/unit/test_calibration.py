"""That p-values mean what they say: on simulated benchmarks, with a fixed seed, so that figures are the same each time.

`python -m tests.performance calibration` measures the same for longer, and more sizes.
"""

from __future__ import annotations

import pytest

from tests.performance import calibration

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("scenarios", "attempts"), [(20, 1), (20, 3), (20, 5), (89, 1), (89, 3), (89, 5)])
def test_no_change_is_called_a_regression_in_one_of_twenty_at_most(scenarios: int, attempts: int) -> None:
    assert calibration.alarms(scenarios, attempts, attempts, 0.0, 1000) <= calibration.MOST_ALARMS


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
def test_rounds_save_attempts_and_keep_the_false_alarms(scenarios: int) -> None:
    alarms, saved, _ = calibration.until_decided(scenarios, calibration.ROUNDS, 0.0, 600)
    assert alarms <= calibration.MOST_ALARMS
    assert saved >= calibration.LEAST_SAVED
    found, saved, fixed = calibration.until_decided(scenarios, calibration.ROUNDS, 0.2, 100)
    assert saved >= calibration.LEAST_SAVED_BY_A_DROP
    assert found >= fixed - 0.05
