"""Statistics of comparisons: pure functions, the same for the same numbers. Explained in docs/statistics.md."""

from .intervals import Alike, Interval, alike, clopper_pearson, clustered_error
from .inversion import Units, bounds, mean_interval
from .multiple import benjamini_hochberg, holm
from .paired import mcnemar, permutation
from .permutations import Test
from .power import FEWEST, Aim, detectable_drop, needed
from .rates import fisher
from .sequential import look

__all__ = [
    "FEWEST",
    "Aim",
    "Alike",
    "Interval",
    "Test",
    "Units",
    "alike",
    "benjamini_hochberg",
    "bounds",
    "clopper_pearson",
    "clustered_error",
    "detectable_drop",
    "fisher",
    "holm",
    "look",
    "mcnemar",
    "mean_interval",
    "needed",
    "permutation",
]
