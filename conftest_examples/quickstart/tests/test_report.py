import json
from pathlib import Path

REPORT = Path("/app/report.json")


def report():
    return json.loads(REPORT.read_text("utf-8"))


def test_is_json_in_utf8_without_escapes():
    assert "Sá, Inês" in REPORT.read_text("utf-8")
    assert isinstance(report(), dict)


def test_counts_the_orders():
    assert report()["orders"] == 8


def test_totals_per_currency_are_exact():
    assert report()["totals"] == {"EUR": "520.50", "USD": "50.00"}


def test_customers_are_sorted_by_what_they_spent():
    assert [(row["name"], row["orders"], row["amount"]) for row in report()["customers"]["EUR"]] == [
        ("Ben Okafor", 2, "220.00"),
        ("Lindqvist, Aino", 2, "200.50"),
        ("Sá, Inês", 2, "100.00"),
    ]
    assert report()["customers"]["USD"] == [{"name": '"Red" Ryan', "orders": 2, "amount": "50.00"}]
