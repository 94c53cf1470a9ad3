"""How many examples are tried of each property."""

from __future__ import annotations

from hypothesis import settings

# `daily` is what `make test` has time for. `make extended` asks for `thorough`, with `--hypothesis-profile`.
# Both are laid over what holds on this machine anyway: where CI is set, every run tries the same examples.
settings.register_profile("thorough", settings(), deadline=None, max_examples=100)
settings.register_profile("daily", settings(), deadline=None, max_examples=25)
settings.load_profile("daily")
