"""Network policies of what a process makes in a cluster, which a cluster's network enforces, or not. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .pod import NETWORK, OWNER, owner_reference

_METADATA_V4 = ("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32")
_METADATA_V6 = ("fe80::/10", "fd00:ec2::254/128")
"""Addresses by which clouds tell a machine its secrets."""


def policies(owner: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what keeps Pods of this owner from each other, from clouds' metadata, and, without a network, from all."""
    name = str(owner["metadata"]["name"])
    everywhere = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(_METADATA_V4)}},
        {"ipBlock": {"cidr": "::/0", "except": list(_METADATA_V6)}},
    ]
    public = {NETWORK: "public"}
    return [
        _policy(
            owner, f"{name}-closed", {"matchLabels": {OWNER: name}}, {"policyTypes": ["Ingress", "Egress"]}
        ),
        _policy(
            owner,
            f"{name}-public",
            {"matchLabels": {OWNER: name, **public}},
            {"policyTypes": ["Egress"], "egress": [{"to": everywhere}, _NAMES]},
        ),
    ]


_NAMES: dict[str, Any] = {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}
"""Names are looked up where the cluster does so, which may be at a link-local address."""


def _policy(
    owner: Mapping[str, Any], name: str, selector: Mapping[str, Any], rules: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": name,
            "labels": {OWNER: owner["metadata"]["name"], "benchjobs/nonce": name},
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {"podSelector": selector, **rules},
    }
