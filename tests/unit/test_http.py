"""Calls of servers: when they want to be asked again, and where they lead."""

from __future__ import annotations

import io
import urllib.request

import pytest

from pytest_benchjobs.system.http import Downgrade, opener, retry_after

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("7", 7.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        *((nothing, None) for nothing in (None, "", "soon", "nan", "inf", "Tue, 99 Nov 2023 22:13:50 GMT")),
    ],
)
def test_a_server_says_when_in_seconds_or_as_a_date(written: str | None, seconds: float | None) -> None:
    assert retry_after(written, NOW) == seconds


def test_nobody_is_led_from_https_to_plain_text() -> None:
    (handler,) = (one for one in opener().handlers if isinstance(one, urllib.request.HTTPRedirectHandler))  # type: ignore[attr-defined]
    request = urllib.request.Request("https://a.example/x")
    with pytest.raises(Downgrade, match=r"leads from https to http://b\.example/x"):
        handler.redirect_request(request, io.BytesIO(), 302, "", {}, "http://b.example/x")  # type: ignore[arg-type]
    followed = handler.redirect_request(request, io.BytesIO(), 302, "", {}, "https://b.example/x")  # type: ignore[arg-type]
    assert followed is not None
    assert followed.full_url == "https://b.example/x"
