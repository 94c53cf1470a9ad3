"""What we ask of a cluster's roles, right by right, and what is lacking without those that are optional.

`docs/kubernetes/` has the same as roles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ...model.finding import Finding, ok, problem
from .api import Cluster


@dataclasses.dataclass(frozen=True, slots=True)
class Right:
    """A verb and the objects that it is for, by their plural; `pods/exec` for a part of them."""

    verb: str
    resource: str
    group: str = ""
    without: str = ""
    """What is lacking without it; empty: nothing works."""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


RIGHTS = (
    *(Right(verb, "pods") for verb in ("create", "get", "list", "watch", "patch", "delete")),
    *(Right(verb, "pods/exec") for verb in ("create", "get")),
    *(Right(verb, "configmaps") for verb in ("create", "get", "list", "patch", "delete")),
    Right(
        "create",
        "networkpolicies",
        "networking.k8s.io",
        "nothing of ours closes the networks none and allowlist, nor keeps public Pods from each other and from "
        "the metadata addresses of clouds",
    ),
    Right("list", "events", without="results say less of why a Pod did not start, or was ended"),
    Right("list", "nodes", without="a node that is lost is noticed later"),
    Right("watch", "nodes", without="a node that is lost is noticed later"),
)


def findings(cluster: Cluster) -> Iterator[Finding]:
    """Ask the cluster for each right, and tell which are lacking. Raises InfrastructureError."""
    lacking = [one for one in RIGHTS if not _has(cluster, one)]
    needed = [str(one) for one in lacking if not one.without]
    if needed:
        yield problem(
            "rights",
            f"you may not {', '.join(needed)} in namespace {cluster.namespace}",
            "ask for the role of docs/kubernetes/role.yaml",
        )
    for why in dict.fromkeys(one.without for one in lacking if one.without):
        verbs = ", ".join(str(one) for one in lacking if one.without == why)
        yield ok("rights", f"you may not {verbs}: {why}")
    if not lacking:
        yield ok("rights", f"all, in namespace {cluster.namespace}")


def _has(cluster: Cluster, right: Right) -> bool:
    resource, _, part = right.resource.partition("/")
    asked: dict[str, Any] = {"verb": right.verb, "resource": resource, "group": right.group}
    if part:
        asked["subresource"] = part
    if resource != "nodes":
        asked["namespace"] = cluster.namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": asked},
    }
    return bool(cluster.create(review)["status"]["allowed"])
