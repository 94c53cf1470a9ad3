"""For the tests of plugins and conftest.py files: sandboxes that need no engine, and what any kind of them has to keep.

fake.py          sandboxes on this machine, in a temporary directory: `FakeProvider`
conformance.py   `SandboxConformance`: tests of a provider of sandboxes, one for each promise
"""

from __future__ import annotations

from .fake import FakeProvider as FakeProvider
from .fake import FakeSandbox as FakeSandbox
