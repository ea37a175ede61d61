#!/usr/bin/env bash
# Fetches the third-party programs that tests speak with. Into target/clients, by package name, from
# whatever registries this machine is set up for; what is there already is left alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
clients="${1:-target/clients}"
# One at a time: two installs into one folder would tear each other's files.
mkdir -p "$clients"
exec 9>"$clients/.lock"
flock 9

# MCP servers, for tests/it/tools_mcp.rs: one from PyPI, one from npm, in folders of their own.
mcp="$clients/mcp"
if [ ! -x "$mcp/venv/bin/mcp-server-time" ]; then
    python3 -m venv --clear "$mcp/venv"
    "$mcp/venv/bin/pip" install --quiet --disable-pip-version-check mcp-server-time
fi
if [ ! -x "$mcp/node_modules/.bin/mcp-server-everything" ]; then
    mkdir -p "$mcp"
    npm install --prefix "$mcp" --no-save --no-audit --no-fund --loglevel=error \
        '@modelcontextprotocol/server-everything'
fi
"$mcp/venv/bin/python" -c 'from importlib.metadata import version; print("mcp-server-time", version("mcp-server-time"))'
node -p '"server-everything " + require("./'"$mcp"'/node_modules/@modelcontextprotocol/server-everything/package.json").version'
