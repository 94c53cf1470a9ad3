"""Network policies select every Pod of their owner, and open only what is public."""

from __future__ import annotations

import ipaddress

from pytest_benchjobs.sandbox.kubernetes.pod import NETWORK, OWNER
from pytest_benchjobs.sandbox.kubernetes.policies import policies

OWNED = {"metadata": {"name": "bench-1", "uid": "u-1"}}
CLOSED, PUBLIC = policies(OWNED)


def test_they_go_with_their_owner_and_are_known_again_by_name() -> None:
    for one in (CLOSED, PUBLIC):
        metadata = one["metadata"]
        assert metadata["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "bench-1", "uid": "u-1"}
        ]
        assert metadata["labels"] == {OWNER: "bench-1", "benchjobs/nonce": metadata["name"]}


def test_every_pod_of_the_owner_is_closed_both_ways() -> None:
    assert CLOSED["spec"] == {
        "podSelector": {"matchLabels": {OWNER: "bench-1"}},
        "policyTypes": ["Ingress", "Egress"],
    }


def test_only_public_ones_get_out_and_nobody_gets_in() -> None:
    assert PUBLIC["spec"]["podSelector"] == {"matchLabels": {OWNER: "bench-1", NETWORK: "public"}}
    assert PUBLIC["spec"]["policyTypes"] == ["Egress"]
    assert "ingress" not in PUBLIC["spec"]


def test_clouds_tell_public_ones_no_secrets() -> None:
    """Addresses of clouds' metadata are in no block that is open, but for names."""
    blocks = [to["ipBlock"] for to in PUBLIC["spec"]["egress"][0]["to"]]
    for text in ("169.254.169.254", "169.254.170.2", "fe80::a9fe:a9fe", "fd00:ec2::254"):
        address = ipaddress.ip_address(text)
        within = [one for one in blocks if address in ipaddress.ip_network(one["cidr"])]
        assert within
        assert all(any(address in ipaddress.ip_network(hole) for hole in one["except"]) for one in within)
    for one in blocks:
        whole = ipaddress.ip_network(one["cidr"])
        assert all(
            ipaddress.ip_network(hole).subnet_of(whole) for hole in one["except"]
        )  # as the API demands
    assert {rule["port"] for rule in PUBLIC["spec"]["egress"][1]["ports"]} == {53}
