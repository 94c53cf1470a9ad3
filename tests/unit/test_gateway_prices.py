"""What is in the table has a price to the cent; what is not has none."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import genai_prices
import pytest

from pytest_benchjobs.gateway import prices as prices_module
from pytest_benchjobs.gateway import public_prices
from pytest_benchjobs.gateway.prices import Prices, load_prices
from pytest_benchjobs.gateway.tokens import NoSuchPrice, Price, Tokens, Unpriced
from pytest_benchjobs.model.errors import InputError

TABLE = """\
date = 2026-11-21

[[model]]
names = ["m-1", "m-1-20*"]
providers = ["openai"]
up_to = 1000
input = 2
output = 10.5
cached = 0.2
cache_write = 2.5
cache_write_1h = 4

[[model]]
names = ["m-1"]
providers = ["openai"]
input = 4
output = 15

[[model]]
names = ["local/*"]
input = 0
output = 0
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(TABLE)
    return path


def test_every_kind_of_token_has_its_own_price(table: Path) -> None:
    tokens = Tokens(input=1000, output=100, cached=300, cache_write=200, cache_write_1h=50, reasoning=90)
    cost = load_prices(table).cost("openai", "m-1", tokens)
    assert cost == pytest.approx((500 * 2 + 300 * 0.2 + 150 * 2.5 + 50 * 4 + 100 * 10.5) / 1e6)


def test_a_price_holds_up_to_its_last_token(table: Path) -> None:
    prices = load_prices(table)
    assert prices.cost("openai", "m-1", Tokens(input=1000)) == pytest.approx(1000 * 2 / 1e6)
    assert prices.cost("openai", "m-1", Tokens(output=10)) == pytest.approx(105 / 1e6)
    assert prices.cost("openai", "m-1", Tokens(input=1001, output=10)) == pytest.approx((4004 + 150) / 1e6)
    _has_no_price(prices, "openai", "m-1-20260101", Tokens(input=1001, output=10), "with so many tokens")
    table.write_text(TABLE.replace("up_to = 1000", "up_to = 1"))
    assert load_prices(table).cost("openai", "m-1", Tokens(input=1)) == pytest.approx(2 / 1e6)
    assert load_prices(table).cost("openai", "m-1", Tokens(input=2)) == pytest.approx(8 / 1e6)


@pytest.mark.parametrize(
    ("tokens", "total"),
    [(Tokens(), None), (Tokens(input=0), 0), (Tokens(output=5), 5), (Tokens(input=1, output=2, cached=9), 3)],
)
def test_what_was_reported_of_a_call_is_its_total(tokens: Tokens, total: int | None) -> None:
    assert tokens.total == total


@pytest.mark.parametrize(
    ("tokens", "millionths"),
    [
        (Tokens(), 0),
        (Tokens(input=10, output=1), 10 * 2 + 3),
        (Tokens(input=10, cached=4), 6 * 2 + 4 * 5),
        (Tokens(input=10, cached=20), 20 * 5),
        (Tokens(input=10, cached=4, cache_write=3), 3 * 2 + 4 * 5 + 3 * 7),
        (Tokens(input=10, cache_write=3, cache_write_1h=1), 7 * 2 + 2 * 7 + 11),
        (Tokens(input=10, cache_write=3, cache_write_1h=4), 7 * 2 + 4 * 11),
    ],
)
def test_no_token_is_paid_twice_or_gets_money_back(tokens: Tokens, millionths: int) -> None:
    assert Price(2, 3, 5, 7, 11).cost(tokens) == pytest.approx(millionths / 1e6)
    if tokens.cached or tokens.cache_write:
        with pytest.raises(Unpriced, match="no price for cache"):
            Price(2, 3).cost(tokens)


@pytest.mark.parametrize(
    ("tokens", "millionths"),
    [
        (
            Tokens(input=10, output=5, apart={"input_audio": 4, "output_image": 2}),
            6 * 2 + 4 * 13 + 3 * 3 + 2 * 17,
        ),
        (Tokens(10, 0, 6, apart={"input_audio": 4, "cached_audio": 3}), 3 * 2 + 3 * 5 + 1 * 13 + 3 * 19),
        (Tokens(10, 0, 6, apart={"input_image": 4, "cached_image": 3}), 4 * 2 + 6 * 5),
    ],
)
def test_what_is_no_text_has_its_own_price_or_is_sent_as_text(tokens: Tokens, millionths: int) -> None:
    media = {"input_audio": 13.0, "output_image": 17.0, "cached_audio": 19.0}
    assert Price(2, 3, 5, apart=media).cost(tokens) == pytest.approx(millionths / 1e6)


def _has_no_price(prices: Prices, provider: str, model: str, tokens: Tokens, words: str) -> None:
    with pytest.raises(Unpriced, match=re.escape(words)):
        prices.cost(provider, model, tokens)


def test_what_has_no_price_costs_nobody_knows_what(table: Path) -> None:
    prices = load_prices(table)
    _has_no_price(prices, "openai", "m-2", Tokens(input=1, output=1), "no price for m-2")
    _has_no_price(prices, "groq", "m-1", Tokens(input=1, output=1), "no price for m-1")
    _has_no_price(prices, "openai", "m-1", Tokens(2000, 1, cached=1), "no price for cached tokens of m-1")
    _has_no_price(
        prices, "openai", "m-1", Tokens(1, 1, apart={"output_audio": 1}), "output_audio tokens of m-1"
    )
    _has_no_price(prices, "openai", "m-1", Tokens(), "m-1 did not report")
    assert not prices.known("groq", "m-1")


def test_models_of_public_providers_have_prices_with_their_caches() -> None:
    prices = load_prices()
    for provider, model in (
        ("anthropic", "claude-sonnet-4-5-20250929"),
        ("openai", "gpt-5"),
        ("openai", "gpt-5.5"),
        ("openai", "gpt-6.2-sol"),
        ("google", "gemini-2.5-pro"),
    ):
        usual = prices.cost(provider, model, Tokens(input=1000, output=1000))
        cached = prices.cost(provider, model, Tokens(input=1000, output=1000, cached=900))
        assert prices.known(provider, model)
        assert 0 < (cached or 0) < (usual or 0), model
    assert prices.cost("anthropic", "claude-opus-5-5", Tokens(input=1_000_000)) == pytest.approx(4)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai-compatible", "gpt-5"),  # it may be anybody's
        ("vllm", "claude-sonnet-4-5"),
        ("somebody", "gpt-5"),
        ("openai", "unheard-of"),
        ("openai", ""),
    ],
)
def test_who_is_not_a_public_provider_with_that_model_has_no_price(provider: str, model: str) -> None:
    assert not load_prices().known(provider, model)
    _has_no_price(load_prices(), provider, model, Tokens(input=1, output=1), f"no price for {model}")


def test_a_server_of_ones_own_has_no_public_prices(table: Path) -> None:
    prices = load_prices(table)
    assert prices.known("openai", "gpt-5")
    assert not prices.known("openai", "gpt-5", public=False)
    assert prices.known("openai", "m-1", public=False)


def test_an_entry_is_for_another_rate_only_if_it_names_one(table: Path) -> None:
    table.write_text(TABLE.replace('"local/*"', '"local/*", "m-* (fast*)"'))
    prices = load_prices(table)
    assert prices.known("vllm", "local/x")
    assert not prices.known("vllm", "local/x", "fast")
    assert not prices.known("openai", "m-1", "flex")
    assert prices.cost("openai", "m-1", Tokens(1, 1), "fast, us") == 0


def test_a_rate_has_its_own_price_or_none() -> None:
    # What they are is told in test_usage_shapes.py.
    prices = load_prices()
    for known in (
        ("openai", "gpt-5", "priority"),
        ("openai", "gpt-5", "flex"),
        ("anthropic", "claude-opus-5", "fast"),
    ):
        assert prices.known(*known)
    # Google sells it too, but not at the rates of Anthropic.
    for provider, model, rate in (
        ("openai", "gpt-5", "fast, us"),
        ("openai", "gpt-5-nano", "priority"),
        ("google", "claude-opus-5", "fast"),
        ("openai", "gpt-5", "batch"),
    ):
        assert not prices.known(provider, model, rate)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-sonnet-4-5"),  # with a range of long calls
        ("openai", "gpt-5"),
        ("google", "gemini-2.5-pro"),
        ("deepseek", "deepseek-chat"),  # with hours of the day
        ("groq", "llama-3.3-70b-versatile"),  # says nothing of caches
        ("perplexity", "sonar"),  # with a price of each request
    ],
)
def test_a_call_costs_what_the_package_says(provider: str, model: str) -> None:
    prices = load_prices()
    for sent in (0, 1, 128_000, 200_000, 200_001, 272_001, 5_000_000):
        half = sent // 2
        for cached, written, hour in ((0, 0, 0), (half, 0, 0), (half, half, half // 2), (1, sent, 0)):
            tokens = Tokens(sent, 777, cached, written, hour)
            usage = genai_prices.Usage(
                input_tokens=sent,
                output_tokens=777,
                cache_read_tokens=cached,
                cache_write_tokens=written,
                cache_write_1h_tokens=hour,
            )
            try:
                said = float(genai_prices.calc_price(usage, model, provider_id=provider).total_price)
            except ValueError:
                with pytest.raises(Unpriced):
                    prices.cost(provider, model, tokens)
            else:
                assert prices.cost(provider, model, tokens) == pytest.approx(said, rel=1e-12), tokens


def test_a_table_of_ones_own_comes_first_and_others_stay(table: Path) -> None:
    prices = load_prices(table)
    assert prices.cost("openai", "gpt-5", Tokens(input=1000)) == load_prices().cost(
        "openai", "gpt-5", Tokens(input=1000)
    )
    table.write_text('date = 2026-11-21\n[[model]]\nnames = ["gpt-5"]\ninput = 7\noutput = 7\n')
    prices = load_prices(table)
    assert prices.cost("openai", "gpt-5", Tokens(input=1_000_000)) == 7
    _has_no_price(
        prices, "openai", "gpt-5", Tokens(input=10, cached=5), "no price for cached tokens of gpt-5"
    )


def test_our_own_table_has_only_what_the_package_lacks() -> None:
    text = (Path(prices_module.__file__).with_name("prices.toml")).read_text()
    for entry in tomllib.loads(text)["model"]:
        for name in entry["names"]:
            if "*" not in name:
                with pytest.raises(NoSuchPrice):  # else take it out of prices.toml
                    public_prices.cost(entry["providers"][0], name, Tokens(input=1, output=1))


def test_only_the_gateways_process_loads_the_table() -> None:
    script = (
        "import sys, pytest_benchjobs.gateway.client, pytest_benchjobs.gateway.job, pytest_benchjobs.plugin.session;"
        "from pytest_benchjobs.gateway.prices import load_prices; load_prices();"
        "print([name for name in sys.modules if name.startswith(('genai_prices', 'httpx'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("date = 2026-11-21", 'date = "today"', 1, "date: a day such as"),
        ("input = 2\n", "", 2, "input: is required"),
        ("input = 2\n", "input = -2\n", 7, "input: must be at least 0, not -2"),
        ("input = 2\n", f"input = 1{'0' * 400}\n", 7, "input: the number is too large"),
        ("input = 2\n", "input = nan\n", 7, "input: NaN"),
        ("output = 10.5", 'output = "10"', 8, "output: a number is expected"),
        ("cached = 0.2", "cashed = 0.2", 9, "cashed: unknown key; did you mean 'cached'?"),
        ("up_to = 1000", "up_to = 0", 6, "up_to: must be at least 1"),
        ('providers = ["openai"]', 'providers = [""]', 5, "providers[0]: is empty"),
        ('providers = ["openai"]', 'providers = "openai"', 5, "providers: a list is expected"),
        ('names = ["m-1", "m-1-20*"]', "names = []", 4, "names: is empty"),
        ('names = ["m-1", "m-1-20*"]', "names = [1]", 4, "names[0]: text is expected"),
        ("[[model]]", "[[models]]", 3, "models: unknown key; did you mean 'model'?"),
    ],
)
def test_a_wrong_table_is_refused_with_the_line(
    table: Path, old: str, new: str, line: int, words: str
) -> None:
    table.write_text(TABLE.replace(old, new, 1))
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        load_prices(table)
    assert str(caught.value).startswith(f"{table}:{line}: " if new else str(table))


@pytest.mark.parametrize("content", [b"date = ", b"\xff\xfe", None])
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "prices.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_prices(path)
    assert caught.value.path == path


def test_the_table_of_the_documentation_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text("utf-8")
    [table] = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "prices.toml").write_text(table)
    prices = load_prices(tmp_path / "prices.toml")
    many = Tokens(input=1_000_000, output=1)
    _has_no_price(prices, "anthropic", "claude-sonnet-4-5-20250929", many, "with so many tokens")
    assert prices.cost("anthropic", "claude-sonnet-4-5-20250929", Tokens(input=100_000)) == pytest.approx(0.3)
    assert prices.cost("vllm", "anything/at-all", Tokens(input=5, output=5, cached=5)) == 0
