"""Variables with the keys that known agents need. Whether they are built in does not matter."""

from __future__ import annotations

KEYS: dict[str, tuple[str, ...]] = {
    "claude-code": ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"),
    "codex": ("OPENAI_API_KEY",),
    "gemini-cli": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "goose": ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY"),
    "opencode": ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY"),
}
"""Agent -> variables, of which at least one is needed."""
