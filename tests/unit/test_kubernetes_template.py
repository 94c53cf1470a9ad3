"""A template is merged into every Pod: nothing of it is lost, and what trials depend on stays ours."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.kubernetes.pod import (
    CONTAINER,
    FILLER,
    NETWORK,
    OWNER,
    Manifest,
    label_value,
    manifest_of,
    merged,
    resources_of,
)
from pytest_benchjobs.sandbox.kubernetes.template import read_template
from pytest_benchjobs.sandbox.protocol import SandboxSpec

OWNED = {"metadata": {"name": "bench-owner", "uid": "u-1"}}
SPEC = SandboxSpec(Environment(image="i", cpus=1.5, memory=2**30), {"trial": "a b/ä[x]"}, "none", 600.0)


def _read(path: Path, text: str) -> Mapping[str, Any]:
    path.write_text(text, "utf-8")
    return read_template(path)


def _pod(template: Mapping[str, Any], spec: SandboxSpec = SPEC, delivered: tuple[str, ...] = ()) -> Manifest:
    return manifest_of("bench-1", spec, "i@sha256:1", OWNED, "x86_64", template, delivered)


class TestReading:
    def test_none_is_nothing(self) -> None:
        assert read_template(None) == {}

    def test_only_labels_and_annotations_of_its_metadata_are_taken(self, tmp_path: Path) -> None:
        text = "metadata: {name: mine, labels: {a: b}, finalizers: [x]}\nspec: {priorityClassName: low}\n"
        assert _read(tmp_path / "t.yaml", text) == {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"priorityClassName": "low"},
        }

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("a: [", "cannot be read"),
            ("- spec", "it is no template of Pods"),
            ("spec: {}\nstatus: {}\n", "it is no template of Pods"),
            ("spec: [a]", "have names with values"),
            ("metadata: 1", "have names with values"),
            ("spec: {restartPolicy: Always}", r"spec\.restartPolicy is not the template's to say"),
            ("spec: {activeDeadlineSeconds: 1}", r"spec\.activeDeadlineSeconds is not"),
            ("spec: {containers: [bench]}", r"spec\.containers .* with a `name`"),
            ("spec: {containers: {name: bench}}", r"spec\.containers .* with a `name`"),
            ("spec: {volumes: [{emptyDir: {}}]}", r"spec\.volumes .* with a `name`"),
        ],
    )
    def test_what_is_no_template_is_told_with_its_file(self, tmp_path: Path, text: str, told: str) -> None:
        path = tmp_path / "t.yaml"
        with pytest.raises(EngineUnavailable, match=f"^{path}: .*{told}"):
            _read(path, text)

    def test_a_file_that_is_not_there_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(EngineUnavailable, match="cannot be read"):
            read_template(tmp_path / "none.yaml")


class TestPods:
    def test_what_a_pod_has_without_one(self) -> None:
        pod = _pod({})
        spec, metadata = pod["spec"], pod["metadata"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["restartPolicy"] == "Never"
        assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
        assert spec["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
        assert {one["tolerationSeconds"] for one in spec["tolerations"]} == {30}
        (container,) = spec["containers"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["MKNOD", "NET_RAW", "SETPCAP"]}
        assert container["image"] == "i@sha256:1"
        assert metadata["labels"][OWNER] == "bench-owner"
        assert metadata["labels"][NETWORK] == "none"
        assert metadata["labels"]["benchjobs/trial"] == "a-b-x"
        assert metadata["annotations"]["benchjobs/trial"] == "a b/ä[x]"
        assert metadata["ownerReferences"][0]["uid"] == "u-1"

    def test_a_template_for_a_cluster_is_whole_in_every_pod(self) -> None:
        pod = _pod(
            {
                "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "bench", OWNER: "mine"}},
                "spec": {
                    "nodeSelector": {"pool": "bench"},
                    "tolerations": [{"key": "bench", "operator": "Exists"}],
                    "imagePullSecrets": [{"name": "registry"}],
                    "serviceAccountName": "trials",
                    "volumes": [{"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}}],
                    "containers": [
                        {"name": "logger", "image": "l"},
                        {
                            "name": CONTAINER,
                            "image": "other",
                            "env": [{"name": "A", "value": "1"}],
                            "resources": {"limits": {"example.com/gpu": 1, "cpu": "9"}},
                            "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
                        },
                    ],
                },
            },
            delivered=("/opt/agent",),
        )
        spec = pod["spec"]
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "bench"
        assert pod["metadata"]["labels"][OWNER] == "bench-owner"
        assert spec["nodeSelector"] == {"kubernetes.io/arch": "amd64", "pool": "bench"}
        assert len(spec["tolerations"]) == 3
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        own, logger = spec["containers"]
        assert (own["name"], own["image"], logger["name"]) == (CONTAINER, "i@sha256:1", "logger")
        assert own["env"] == [{"name": "A", "value": "1"}]
        assert own["resources"]["limits"] == {"example.com/gpu": 1, "cpu": "1500m", "memory": "1073741824"}
        assert [one["name"] for one in own["volumeMounts"]] == ["cache", "bench-program", "bench-delivered-0"]
        assert [one["name"] for one in spec["volumes"]] == ["cache", "bench-program", "bench-delivered-0"]
        assert spec["initContainers"][0]["volumeMounts"][1] == {
            "name": "bench-delivered-0",
            "mountPath": "/opt/agent",
            "readOnly": False,
        }

    def test_what_newer_clusters_have_is_in_every_pod_as_it_is(self, tmp_path: Path) -> None:
        spec = {
            "hostUsers": False,
            "initContainers": [{"name": "mesh", "image": "m", "restartPolicy": "Always"}],
            "volumes": [{"name": "data", "image": {"reference": "d:1", "pullPolicy": "IfNotPresent"}}],
            "containers": [{"name": CONTAINER, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        }
        template = _read(tmp_path / "t.yaml", yaml.safe_dump({"spec": spec}))
        made = _pod(template, delivered=("/opt/agent",))["spec"]
        assert made["hostUsers"] is False
        assert made["initContainers"][0] == {"name": "mesh", "image": "m", "restartPolicy": "Always"}
        assert [one["name"] for one in made["initContainers"]] == ["mesh", FILLER]
        assert spec["volumes"][0] in made["volumes"]
        assert {"name": "data", "mountPath": "/data"} in made["containers"][0]["volumeMounts"]

    def test_the_two_numbers_and_gpus(self) -> None:
        environment = Environment(image="i", cpus=2, cpus_request=0.25, memory=100, storage=7, gpus=2)
        assert resources_of(environment) == {
            "requests": {"cpu": "250m", "memory": "100", "ephemeral-storage": "7"},
            "limits": {"cpu": "2000m", "memory": "100", "ephemeral-storage": "7", "nvidia.com/gpu": "2"},
        }
        assert resources_of(Environment(image="i")) == {"requests": {}, "limits": {}}


@given(st.text())
def test_any_text_is_a_label(text: str) -> None:
    value = label_value(text)
    assert len(value) <= 63
    assert value == "" or (value[0].isalnum() and value[-1].isalnum() and value.isascii())


_NAMES = st.sampled_from(["a", "b", "name", "drop"])
_LEAVES = st.integers(0, 3) | st.sampled_from(["x", "y"]) | st.none()
_TREES = st.dictionaries(
    _NAMES,
    st.recursive(
        _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3)
    ),
    max_size=3,
)


@given(base=_TREES, over=_TREES)
def test_the_second_wins_and_nothing_is_lost(base: dict[str, Any], over: dict[str, Any]) -> None:
    before = copy.deepcopy((base, over))
    found = merged(base, over)
    assert (base, over) == before
    _is_in(over, found)
    _is_kept(base, over, found)


def _is_in(over: Any, found: Any) -> None:
    """All that `over` says, `found` says."""
    if isinstance(over, dict):
        for key, value in over.items():
            _is_in(value, found[key])
    elif not isinstance(over, list):
        assert found == over
    else:
        assert len(found) >= len({json.dumps(_name(one)) for one in over if _name(one) is not None})
        for one in over:
            if _name(one) is None:
                assert one in found


def _is_kept(base: dict[str, Any], over: dict[str, Any], found: dict[str, Any]) -> None:
    """What `base` says, and `over` does not, `found` says."""
    for key, value in base.items():
        if key not in over:
            assert found[key] == value
        elif isinstance(value, dict) and isinstance(over[key], dict):
            _is_kept(value, over[key], found[key])
        elif isinstance(value, list) and isinstance(over[key], list) and key != "drop":
            assert all(one in found[key] for one in value if _name(one) is None)
            assert {str(_name(one)) for one in value} <= {str(_name(one)) for one in found[key]}


def _name(one: Any) -> Any:
    return one.get("name") if isinstance(one, dict) else None


def test_the_templates_of_the_page_can_be_read(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "kubernetes.md"
    shown = page.read_text("utf-8").split("```yaml\n")[1:]
    templates = [text.partition("```")[0] for text in shown if "kind: Role" not in text.partition("```")[0]]
    assert templates
    for text in templates:
        assert _pod(_read(tmp_path / "t.yaml", text))["spec"]["containers"][0]["name"] == CONTAINER


def test_the_page_shows_the_role_as_it_is() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "kubernetes.md").read_text("utf-8")
    for name in ("role.yaml", "role-optional.yaml"):
        assert list(yaml.safe_load_all((docs / "kubernetes" / name).read_text("utf-8"))) in [
            list(yaml.safe_load_all(text.partition("```")[0])) for text in page.split("```yaml\n")[1:]
        ]
