"""The hosts of an allowlist: how they are written, and what they permit."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.hosts import AllowedHosts, ascii_name, parsed_host


@pytest.mark.parametrize(
    ("written", "parsed"),
    [
        ("PyPI.org.", "pypi.org"),
        ("*.Debian.ORG", "*.debian.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("under_score.example", "under_score.example"),
        ("10.0.0.7", ipaddress.ip_network("10.0.0.7/32")),
        ("10.1.2.3/8", ipaddress.ip_network("10.0.0.0/8")),
        ("2001:db8::/32", ipaddress.ip_network("2001:db8::/32")),
    ],
)
def test_a_host_has_one_form(written: str, parsed: object) -> None:
    assert parsed_host(written) == parsed


@pytest.mark.parametrize(
    "written",
    ["", "*", "*.", "a..b", "-a.org", "a.org/x", "http://a.org", "a b", "a@b", "*.*.org", "a.*.org", "127.1", "0x7f.1",
     "x." + "a" * 64, "a." * 127 + "org", "[::1]", "10.0.0.0/33", "a.org:443"],
)  # fmt: skip
def test_what_is_no_host_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        parsed_host(written)


ALLOWED = AllowedHosts.of(["pypi.org", "*.pythonhosted.org", "10.1.0.0/16", "203.0.113.7", "0.0.0.0/0"])


@pytest.mark.parametrize("name", ["pypi.org", "files.pythonhosted.org", "a.b.pythonhosted.org"])
def test_names_on_the_list_are_permitted(name: str) -> None:
    assert ALLOWED.why_not_name(name) is None


@pytest.mark.parametrize(
    "name",
    ["www.pypi.org", "pythonhosted.org", "xpythonhosted.org", "pypi.org.evil.example", "evilpypi.org", "2130706433", "0x7f000001"],
)  # fmt: skip
def test_other_names_are_not(name: str) -> None:
    assert ALLOWED.why_not_name(name) is not None


def _why(address: str, hosts: AllowedHosts, *, named: bool = True, own: bool = False) -> str | None:
    return hosts.why_not_address(ipaddress.ip_address(address), named=named, own=own)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.8.8.8", "0.0.0.0", "169.254.169.254", "168.63.129.16", "100.100.100.200", "224.0.0.1",
     "255.255.255.255", "::", "::1", "fe80::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1",
     "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "::7f00:1", "::169.254.169.254"],
)  # fmt: skip
def test_some_addresses_are_never_permitted(address: str) -> None:
    listed = AllowedHosts.of(
        ["pypi.org", "0.0.0.0/0", "::/0", "127.0.0.0/8", "169.254.169.254", "168.63.129.16", "::1"]
    )
    for named in (True, False):
        assert _why(address, listed, named=named) == "such addresses are never allowed"


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "172.17.0.2", "100.64.0.1", "198.19.0.2", "fd12::1", "::ffff:10.0.0.1"])  # fmt: skip
def test_a_name_does_not_lead_to_a_private_address(address: str) -> None:
    named = AllowedHosts.of(["pypi.org", "0.0.0.0/0", "::/0", "8.0.0.0/5"])
    assert "private" in str(_why(address, named))


def test_a_private_address_is_permitted_where_it_is_listed() -> None:
    assert _why("10.1.2.3", ALLOWED, named=False) is None
    assert _why("::ffff:10.1.2.3", ALLOWED, named=False) is None
    assert _why("10.2.0.1", ALLOWED, named=False) is not None


def test_an_address_of_this_machine_has_to_be_listed_itself() -> None:
    assert _why("203.0.113.7", ALLOWED, named=False, own=True) is None
    assert "this machine" in str(_why("8.8.8.8", ALLOWED, own=True))


def test_an_address_that_is_not_listed_is_refused() -> None:
    listed = AllowedHosts.of(["pypi.org", "1.1.1.0/24"])
    assert _why("1.1.1.1", listed, named=False) is None
    assert _why("8.8.8.8", listed, named=False) == "not among the allowed hosts: pypi.org, 1.1.1.0/24"
    assert _why("8.8.8.8", listed, named=True) is None


def test_an_empty_list_permits_nothing() -> None:
    nothing = AllowedHosts.of([])
    assert nothing.why_not_name("pypi.org") == "not among the allowed hosts: none"
    assert _why("8.8.8.8", nothing, named=False) is not None


def test_a_long_list_is_shown_in_part() -> None:
    assert str(AllowedHosts.of(f"h{n}.example" for n in range(30))).endswith(" and 20 more")


@given(st.text(max_size=80))
def test_any_text_is_a_host_or_a_clear_error(text: str) -> None:
    try:
        parsed_host(text)
    except ValueError as error:
        assert "is not a host" in str(error)
    name = ascii_name(text)
    assert name is None or ascii_name(name) == name


@given(st.ip_addresses())
def test_no_name_leads_to_what_is_not_the_internet(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if AllowedHosts.of(["a.org"]).why_not_address(address, named=True, own=False) is None:
        assert address.is_global
        assert not address.is_multicast
