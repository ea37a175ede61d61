#!/usr/bin/env bash
# Fetches the third-party programs that the tests speak with: LiteLLM's proxy, a model server that
# others wrote (tests/it/models/real.rs).
# Into target/clients, by package name, from whatever registries this machine is set up for; what
# is there already is left alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
clients="${1:-target/clients}"
# One at a time: two installs into one folder would tear each other's files.
mkdir -p "$clients"
exec 9>"$clients/.lock"
flock 9

# A folder of its own: it wants its own versions of much.
if ! "$clients/litellm/bin/python" -c 'import litellm.proxy.proxy_cli' 2>/dev/null; then
    python3 -m venv --clear "$clients/litellm"
    "$clients/litellm/bin/pip" install --quiet --disable-pip-version-check 'litellm[proxy]'
fi

"$clients/litellm/bin/python" -c 'from importlib.metadata import version; print("litellm", version("litellm"))'
