#!/usr/bin/env bash
# Fetches the third-party clients that tests/it/clients.rs speaks with: buf, Python's gRPC, and A2A's SDK.
# Into target/clients, by package name, from whatever registries this machine is set up for; what
# is there already is left alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
clients="${1:-target/clients}"
# One at a time: two installs into one folder would tear each other's files.
mkdir -p "$clients"
exec 9>"$clients/.lock"
flock 9

if [ ! -x "$clients/node_modules/.bin/buf" ]; then
    npm install --prefix "$clients" --no-save --no-audit --no-fund --loglevel=error '@bufbuild/buf@1'
fi

packages=(grpcio grpcio-tools grpcio-reflection grpcio-health-checking 'a2a-sdk[grpc]>=1.3,<2')
if ! "$clients/venv/bin/python" -c 'import grpc_tools, grpc_reflection, grpc_health, a2a' 2>/dev/null; then
    python3 -m venv --clear "$clients/venv"
    "$clients/venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
fi

echo "buf $("$clients/node_modules/.bin/buf" --version)"
"$clients/venv/bin/python" -c 'import grpc; print("grpcio", grpc.__version__)'
