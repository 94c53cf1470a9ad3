"""Variables with the keys that known agents need, built in or not."""

from __future__ import annotations

KEYS: dict[str, tuple[str, ...]] = {
    "claude-code": ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"),
    "codex": ("OPENAI_API_KEY",),
    "gemini-cli": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "goose": ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY"),
    "opencode": ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY"),
}
"""Agent -> variables, of which it needs at least one."""
