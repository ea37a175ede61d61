#!/usr/bin/env bash
# Fetches what the rounds of chaos need and the tests do not: Patroni and a driver (Python packages), etcd and a library
# that makes clocks wrong (Debian packages, unpacked and not installed). Into target/chaos; what is there is left alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
chaos="${HOLDPOINT_CHAOS_TOOLS:-target/chaos}"
mkdir -p "$chaos"
chaos="$(cd "$chaos" && pwd)"

# In a folder and not in a venv: Patroni runs as another user, who may not read the home that a venv's Python is in.
if [ ! -d "$chaos/site/patroni" ]; then
    python3 -m pip install --quiet --disable-pip-version-check --target "$chaos/site" \
        'patroni[etcd3,psycopg3]==4.1.5' 'psycopg[binary]>=3.3,<4' grpcio grpcio-tools
fi
if [ ! -x "$chaos/root/usr/bin/etcd" ] || ! compgen -G "$chaos/root/usr/lib/*/faketime/libfaketimeMT.so.1" >/dev/null; then
    mkdir -p "$chaos/debs" "$chaos/root"
    (cd "$chaos/debs" && apt-get download -qq etcd-server libfaketime 2>/dev/null)
    for package in "$chaos"/debs/*.deb; do
        dpkg -x "$package" "$chaos/root"
    done
fi
# What the clients speak.
if [ ! -f "$chaos/stubs/holdpoint/v1/orchestrator_pb2_grpc.py" ] || [ proto/holdpoint/v1/orchestrator.proto -nt "$chaos/stubs" ]; then
    mkdir -p "$chaos/stubs"
    PYTHONPATH="$chaos/site" python3 -m grpc_tools.protoc -I proto --python_out="$chaos/stubs" \
        --grpc_python_out="$chaos/stubs" proto/holdpoint/v1/*.proto
    touch "$chaos/stubs"
fi
chmod -R a+rX "$chaos/site" "$chaos/root"
echo "$chaos"
