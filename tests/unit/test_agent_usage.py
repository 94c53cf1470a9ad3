"""What an agent writes of itself is figures or nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.agents.usage import said_usage
from pytest_benchjobs.model.result import Origin
from pytest_benchjobs.model.usage import FIGURES, Usage
from pytest_benchjobs.store.totals import spent_by

from .records import NOW, result


def test_figures_are_taken_and_marked() -> None:
    content = b'{"input_tokens": 12, "output_tokens": 3, "cached_tokens": 9, "reasoning_tokens": 1, "cost_usd": 0.5}'
    assert said_usage(content) == Usage(
        input_tokens=12, output_tokens=3, cached_tokens=9, reasoning_tokens=1, cost_usd=0.5, source="agent"
    )


def test_what_is_left_out_or_null_is_unknown() -> None:
    assert said_usage(b'{"cost_usd": 2, "input_tokens": null}') == Usage(cost_usd=2, source="agent")


@pytest.mark.parametrize("content", [b"", b" \n", b"{}", b'{"cost_usd": null}'])
def test_nothing_is_nothing(content: bytes) -> None:
    assert said_usage(content) == Usage()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"tokens: 5", "Invalid JSON"),
        (b"[5]", "a table of keys is expected"),
        (b"\xff\xfe", "Invalid JSON"),
        (b"[" * 60_000, "Invalid JSON"),
        (b'{"input_tokens": "5"}', "input_tokens: a whole number is expected"),
        (b'{"input_tokens": 5.5}', "input_tokens: a whole number is expected"),
        (b'{"input_tokens": true}', "input_tokens: a whole number is expected"),
        (b'{"input_tokens": -1}', "input_tokens: must be"),
        (b'{"input_tokens": 1000000000001}', "input_tokens: is more than 1e"),
        (b'{"input_tokens": 9' + b"9" * 400 + b"}", "input_tokens: "),
        (b'{"cost_usd": 1e300}', "cost_usd: is more than 1e"),
        (b'{"cost_usd": NaN}', "cost_usd: "),
        (b'{"cost_usd": Infinity}', "cost_usd: "),
        (b'{"cost_usd": -0.1}', "cost_usd: must be"),
        (b'{"tokens": 5}', "tokens: "),
        (b'{"source": "gateway", "cost_usd": 1}', "source: unknown key"),
        (b'{"input_tokens": 5, "cached_tokens": 6}', "cached_tokens: is more than input_tokens, which it is a part of"),
        (b'{"output_tokens": 5, "reasoning_tokens": 6}', "reasoning_tokens: is more than output_tokens"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_in_a_line(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        said_usage(content)
    assert type(caught.value) is ValueError
    assert len(str(caught.value)) <= 200
    assert str(caught.value).isprintable()


_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


@given(
    st.binary(max_size=50)
    | st.dictionaries(st.sampled_from([*FIGURES, "source", "x"]), _VALUES).map(json.dumps)
)
def test_whatever_it_writes_is_figures_within_bounds_or_refused(content: bytes | str) -> None:
    try:
        usage = said_usage(content.encode() if isinstance(content, str) else content)
    except ValueError:
        return
    figures = [value for name in FIGURES if (value := getattr(usage, name)) is not None]
    assert all(0 <= value <= 10**12 for value in figures)
    assert usage.source == ("agent" if figures else None)


def test_no_limit_is_held_against_what_agents_say_of_themselves() -> None:
    counted = result(usage=Usage(cost_usd=0.25, calls=2, source="gateway"))
    said = result(usage=Usage(cost_usd=1000, calls=9, source="agent"))
    assert spent_by([counted, said, counted]) == Usage(cost_usd=0.5, calls=4)


def test_what_was_taken_over_was_paid_by_another_job() -> None:
    origin = Origin(job="20260101-000000-aaaaaa", path="trials/x", finished_at=NOW)
    usage = Usage(cost_usd=0.25, source="gateway")
    taken = [result(usage=usage, **{kind: origin}) for kind in ("reused", "rescored")]
    assert spent_by(taken) == Usage()
    assert spent_by([*taken, result(usage=usage)]) == Usage(cost_usd=0.25)
