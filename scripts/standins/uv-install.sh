#!/bin/sh
# What `curl .../uv/.../install.sh | sh` does, as far as test scripts can tell: uvx in ~/.local/bin, and an env file.
set -eu
mkdir -p "$HOME/.local/bin"
cp /opt/uvx/uvx "$HOME/.local/bin/uvx"
echo 'export PATH="$HOME/.local/bin:$PATH"' > "$HOME/.local/bin/env"
echo "uvx of this stand-in image installed" >&2
