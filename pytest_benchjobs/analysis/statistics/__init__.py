"""Statistics of comparisons: pure functions of numbers, the same for the same seed. Explained in docs/statistics.md."""

from pytest_benchjobs.analysis.statistics.intervals import (
    Interval,
    bootstrap_mean,
    clustered_error,
    mean_interval,
)
from pytest_benchjobs.analysis.statistics.multiple import benjamini_hochberg, holm
from pytest_benchjobs.analysis.statistics.paired import Test, mcnemar, non_inferiority, sign_flip
from pytest_benchjobs.analysis.statistics.power import detectable_drop, needed
from pytest_benchjobs.analysis.statistics.rates import fisher, wilson
from pytest_benchjobs.analysis.statistics.sequential import Look, look

__all__ = [
    "Interval",
    "Look",
    "Test",
    "benjamini_hochberg",
    "bootstrap_mean",
    "clustered_error",
    "detectable_drop",
    "fisher",
    "holm",
    "look",
    "mcnemar",
    "mean_interval",
    "needed",
    "non_inferiority",
    "sign_flip",
    "wilson",
]
