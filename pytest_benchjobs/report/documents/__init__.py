"""Models of the output of `-o json` and `-o yaml`, each versioned. `benchjobs schema NAME` prints its schema.

A model goes into a module of this package, derives from `Document`, and gets a line in `DOCUMENTS`. `mirror` fills the
fields that it shares with its source. The row of `export` is defined in `report/export.py`.
"""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

from pydantic import BaseModel, computed_field

from ...model.base import Model

DOCUMENTS = {
    "result": ("pytest_benchjobs.model.result", "TrialResult"),
    "job": ("pytest_benchjobs.model.job", "JobRecord"),
    "trajectory": ("pytest_benchjobs.agents.reading.trajectory", "TrajectoryLine"),
    "watch": ("pytest_benchjobs.report.documents.watch", "WatchDocument"),
    "list": ("pytest_benchjobs.report.documents.jobs", "ListDocument"),
    "runs": ("pytest_benchjobs.report.documents.jobs", "RunsDocument"),
    "summary": ("pytest_benchjobs.report.documents.summary", "SummaryDocument"),
    "show": ("pytest_benchjobs.report.documents.trial", "ShowDocument"),
    "detach": ("pytest_benchjobs.report.documents.jobs", "DetachDocument"),
    "logs": ("pytest_benchjobs.report.documents.jobs", "LogsDocument"),
    "export": ("pytest_benchjobs.report.export", "ExportRow"),
    "training": ("pytest_benchjobs.report.training", "TrainingRow"),
    "cancel": ("pytest_benchjobs.report.documents.jobs", "CancelDocument"),
    "rm": ("pytest_benchjobs.report.documents.jobs", "RemovedDocument"),
    "recover": ("pytest_benchjobs.report.documents.jobs", "RecoverDocument"),
    "plan": ("pytest_benchjobs.report.documents.plan", "PlanDocument"),
    "check": ("pytest_benchjobs.report.documents.benchmarks", "CheckDocument"),
    "calibrate": ("pytest_benchjobs.report.documents.benchmarks", "CalibrationDocument"),
    "doctor": ("pytest_benchjobs.report.documents.machine", "DoctorDocument"),
    "comparison": ("pytest_benchjobs.model.comparison", "Comparison"),
    "baselines": ("pytest_benchjobs.report.documents.baselines", "BaselinesDocument"),
    "baseline": ("pytest_benchjobs.report.documents.baselines", "BaselineDocument"),
    "baseline-file": ("pytest_benchjobs.model.baseline", "BaselineFile"),
    "gate": ("pytest_benchjobs.model.gate", "GateReport"),
    "merge": ("pytest_benchjobs.report.documents.jobs", "MergeDocument"),
    "secret": ("pytest_benchjobs.report.documents.machine", "SecretsDocument"),
    "agents": ("pytest_benchjobs.report.documents.machine", "AgentsDocument"),
    "agent": ("pytest_benchjobs.report.documents.machine", "AgentDocument"),
    "catalogue": ("pytest_benchjobs.report.documents.benchmarks", "CatalogueDocument"),
    "catalogue-entry": ("pytest_benchjobs.report.documents.benchmarks", "CatalogueEntryDocument"),
    "images": ("pytest_benchjobs.report.documents.plan", "ImagesDocument"),
    "scenarios": ("pytest_benchjobs.report.documents.scenarios", "ScenariosDocument"),
    "scenario": ("pytest_benchjobs.report.documents.scenarios", "ScenarioDocument"),
    "scenario-import": ("pytest_benchjobs.report.documents.scenarios", "ImportDocument"),
    "benchmarks": ("pytest_benchjobs.report.documents.benchmarks", "BenchmarksDocument"),
    "written": ("pytest_benchjobs.report.documents.changes", "WrittenDocument"),
    "baseline-change": ("pytest_benchjobs.report.documents.changes", "BaselineChange"),
    "secret-change": ("pytest_benchjobs.report.documents.changes", "SecretChange"),
    "fetched": ("pytest_benchjobs.report.documents.changes", "FetchedDocument"),
    "exceptions": ("pytest_benchjobs.report.documents.changes", "ExceptionsDocument"),
    "gc": ("pytest_benchjobs.report.documents.changes", "CollectedDocument"),
    "db": ("pytest_benchjobs.report.documents.changes", "RebuiltDocument"),
    "viewer-meta": ("pytest_benchjobs.report.documents.viewer", "ViewerMeta"),
    "viewer-overview": ("pytest_benchjobs.report.documents.viewer", "ViewerOverview"),
    "viewer-jobs": ("pytest_benchjobs.report.documents.viewer", "ViewerJobs"),
    "viewer-runs": ("pytest_benchjobs.report.documents.viewer", "ViewerRuns"),
    "viewer-job": ("pytest_benchjobs.report.documents.viewer", "ViewerJob"),
    "viewer-matrix": ("pytest_benchjobs.report.documents.viewer", "ViewerMatrix"),
    "viewer-trial": ("pytest_benchjobs.report.documents.viewer", "ViewerTrial"),
    "viewer-steps": ("pytest_benchjobs.report.documents.viewer", "ViewerSteps"),
    "viewer-log": ("pytest_benchjobs.report.documents.viewer", "ViewerLog"),
    "viewer-compare": ("pytest_benchjobs.report.documents.viewer", "ViewerComparison"),
    "viewer-align": ("pytest_benchjobs.report.documents.viewer", "ViewerAlignment"),
    "viewer-scenario": ("pytest_benchjobs.report.documents.viewer", "ViewerScenario"),
    "viewer-trend": ("pytest_benchjobs.report.documents.viewer", "ViewerTrend"),
    "viewer-data": ("pytest_benchjobs.report.documents.viewer_data", "ViewerData"),
    "trajectories": ("pytest_benchjobs.report.documents.viewer_data", "TrajectoriesData"),
}
"""Name -> module and class. A module is imported when its schema is requested."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_Kind = TypeVar("_Kind", bound=Model)


class Document(Model):
    """A document on stdout. A key that is removed or changes its meaning needs a new `schema_version`."""

    schema_version: int = 1


def renamed(old: str, kind: Any, alias: str | None = None) -> Any:
    """Return a key with the value of a field: its new name. The old one is printed beside it for one version."""
    about = f"The new name of `{old}`, which the next version leaves out."
    value = property(lambda document: getattr(document, old))
    return computed_field(return_type=kind, alias=alias, description=about)(value)


def mirror(kind: type[_Kind], source: object, **others: Any) -> _Kind:
    """Make a document from `others`, and from the attributes of `source` for all other fields.

    A field with another name than the attribute has that as its `validation_alias`.
    """
    for name, field in kind.model_fields.items():
        attribute = str(field.validation_alias or name)
        if name in others:
            others[attribute] = others.pop(name)
        elif name != "schema_version" and hasattr(
            source, attribute
        ):  # each kind counts its versions by itself
            others[attribute] = getattr(source, attribute)
    return kind(**others)


def document_class(name: str) -> type[BaseModel]:
    """Return the model with a name of `DOCUMENTS`. Raises KeyError: there is none."""
    module, class_name = DOCUMENTS[name]
    found: type[BaseModel] = getattr(importlib.import_module(module), class_name)
    return found


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of the document with a name of `DOCUMENTS`. Raises KeyError: there is none."""
    schema = document_class(name).model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": DIALECT, **schema}
