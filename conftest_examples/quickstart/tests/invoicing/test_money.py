import pytest


@pytest.mark.parametrize(
    ("text", "cents"),
    [("7", 700), ("1,234.50", 123450), ("0.05", 5), ("1.5", 150), ("-3.05", -305), ("-0.10", -10)],
)
def test_parses(evaluate, text, cents):
    assert evaluate(f"money.parse({text!r})") == cents


@pytest.mark.parametrize("cents", [0, 5, 700, 123450, -305, -10])
def test_shows_what_it_parses(evaluate, cents):
    assert evaluate(f"money.parse(money.show({cents}))") == cents


@pytest.mark.parametrize(("total", "parts"), [(100, 3), (101, 2), (99, 100), (90, 3)])
def test_shares_add_up(evaluate, total, parts):
    shares = evaluate(f"money.share({total}, {parts})")
    assert len(shares) == parts
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1
