"""Rows of the table of settings: what a job is judged by."""

from __future__ import annotations

import functools

from .setting import Setting

_Gate = functools.partial(Setting, gate=True, resumable=True)
_Later = functools.partial(_Gate, afterwards=True)
"""What `benchjobs gate` may say, too."""

GATES = (
    _Later(
        name="baseline",
        kind="text",
        metavar="SPEC",
        help="what to judge the job by: NAME, job:ID, last, branch:NAME[~M], file:PATH or none",
        example=("main",),
    ),
    _Later(
        name="require_baseline",
        kind="flag",
        help="every agent and benchmark has to be in the baseline, whatever first_run says",
    ),
    _Later(
        name="first_run",
        kind="flag",
        help="the baseline need not be there yet; what it has nothing of has the verdict `no baseline`",
    ),
    _Later(
        name="fail_on_regression",
        kind="rules",
        metavar="EXPR",
        help="METRIC[SCOPE][:AMOUNT][@LEVEL] that may not get worse, as mean:5pp; repeatable (default: mean:any)",
        example=("mean:5pp", "cost:20%"),
    ),
    _Later(
        name="allow_missing",
        kind="absences",
        metavar="[KEY=]PATTERN",
        help="scenarios, agents or benchmarks of the baseline that the job need not have, as scenario=old-*; "
        "repeatable",
        example=("scenario=old-*",),
    ),
    _Later(
        name="min_score",
        kind="floors",
        metavar="[NAME=]X",
        help="least mean score of each benchmark and agent, or of the one called NAME; repeatable",
        example=("0.5", "toy=60%"),
    ),
    _Later(
        name="min_pass_rate",
        kind="floors",
        metavar="[NAME=]X",
        help="least share of attempts that pass, likewise",
        example=("50%",),
    ),
    _Later(
        name="max_error_rate",
        kind="floors",
        metavar="[NAME=]X",
        help="share of attempts that may end in an error before a gate is invalid (default: 0.05)",
        example=("0.1",),
    ),
    _Later(
        name="min_samples",
        kind="floors",
        metavar="[NAME=]N",
        help="scenarios that must be compared for a gate to be valid (default: 1)",
        example=("5",),
    ),
    _Later(
        name="min_lift",
        kind="floors",
        metavar="[NAME=]X",
        help="least mean score, as a multiple of that of baseline:random in this job",
        example=("2",),
    ),
    _Later(
        name="policy",
        kind="gate choice",
        metavar="evidence|strict|point",
        help="what counts as a regression (default: evidence)",
        example=("strict",),
    ),
    _Gate(
        name="exit",
        kind="gate choice",
        metavar="tests|gate|both",
        help="what the exit status tells of (default: gate where there is one, else tests)",
        example=("both",),
    ),
    _Later(
        name="regress_warn",
        kind="points",
        metavar="PP",
        help="drop of the mean, such as 2pp, that is worth a warning",
        example=("2pp",),
    ),
    _Later(
        name="noise",
        kind="noise",
        metavar="BENCHMARK=PP",
        help="drop that is nothing on this benchmark, whatever a rule says; repeatable",
        example=("toy=3pp",),
    ),
    _Gate(
        name="confirm",
        kind="whole",
        metavar="N",
        help="fresh attempts of each scenario that looks worse than in the baseline, which then decide about it",
        example=("4",),
    ),
    _Gate(
        name="until_decided",
        kind="flag",
        help="attempts in rounds, and none more once the gate is decided; --bench-attempts are the most",
    ),
)
