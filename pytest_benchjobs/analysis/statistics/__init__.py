"""Statistics of comparisons: pure functions, the same for the same numbers. Explained in docs/statistics.md."""

from .intervals import Interval, clustered_error, mean_interval
from .multiple import benjamini_hochberg, holm
from .paired import mcnemar, non_inferiority, permutation, sign_flip
from .power import FEWEST, detectable_drop, needed
from .rates import fisher, wilson
from .sequential import look
from .shuffling import Test

__all__ = [
    "FEWEST",
    "Interval",
    "Test",
    "benjamini_hochberg",
    "clustered_error",
    "detectable_drop",
    "fisher",
    "holm",
    "look",
    "mcnemar",
    "mean_interval",
    "needed",
    "non_inferiority",
    "permutation",
    "sign_flip",
    "wilson",
]
