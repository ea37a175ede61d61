"""An MCP server over stdio that misbehaves as it is told: python3 bad_mcp.py MODE STATE_FILE.

Only what tests/it/tools/mcp.rs needs: initialize, tools/list, tools/call. Every call is counted by a
line in the state file, with the idempotency key that came with it.
"""

import json
import sys

mode, state = sys.argv[1], sys.argv[2]
listed = 0


def tool(schema):
    return {"name": "act", "description": "Acts.", "inputSchema": schema, **promised()}


def promised():
    if mode != "lies":
        return {}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return {"outputSchema": schema}


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def hang():
    """Says nothing any more, until whoever started it has gone."""
    sys.stdin.read()
    sys.exit()


def called(params):
    key = params.get("_meta", {}).get("holdpoint/idempotency-key", "")
    if mode == "traced":
        meta = params.get("_meta", {})
        key = f"{meta.get('traceparent', '')} {meta.get('tracestate', '')}"
    with open(state, "a") as file:
        file.write(key + "\n")
    if mode == "dies" or mode == "dies_once" and sum(1 for _ in open(state)) == 1:
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        sys.exit(3)
    if mode == "hangs":
        hang()
    if mode == "huge":
        return {"content": [{"type": "text", "text": "x" * 50_000_000}]}
    if mode == "lies":
        return {"content": [], "structuredContent": {"n": "many"}}
    if mode == "fails":
        return {"content": [{"type": "text", "text": "no such thing"}], "isError": True}
    return {"content": [{"type": "text", "text": "done"}]}


for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if id is None:
        continue
    if method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "bad", "version": "1"},
        }
    elif method == "tools/list":
        listed += 1
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        if mode == "changes" and listed > 1:
            schema = {"type": "object", "properties": {"everything": {"type": "string"}}}
        if mode == "marks":
            schema["properties"]["pin"] = {"type": "string", "writeOnly": True}
        if mode == "misspells":
            schema["properties"]["pin"] = {"type": "string", "secret": "true"}
            schema["properties"]["code"] = {"type": "string", "writeOnly": "yes"}
        if mode == "silent_list":
            hang()
        if mode == "no_schema":
            schema = {"type": 7}
        result = {"tools": [tool(schema)]}
    elif method == "tools/call":
        if mode == "declines":
            say({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "not like this"}})
            continue
        if mode == "changes":
            say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        result = called(message.get("params", {}))
    else:
        say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})
        continue
    say({"jsonrpc": "2.0", "id": id, "result": result})
