"""Defaults that several rooms tell people, or apply."""

from __future__ import annotations

DEFAULT_AGENT_TIMEOUT = 7200.0
"""Seconds that an agent has where neither its scenario nor the job says otherwise."""
