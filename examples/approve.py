"""Start a workflow over HTTP, show a person what is decided, and send their word back.

    holdpoint serve &
    python3 examples/approve.py approve_and_send "Tell the team that the release is out."

The answer names the question by its request id and carries the digest of what was shown: should anything
else be asked by then, it is refused and nothing happens.
"""

import json
import os
import sys
import urllib.request

SERVER = os.environ.get("HOLDPOINT_SERVER", "http://127.0.0.1:4653")


def call(body):
    headers = {"content-type": "application/json"}
    if key := os.environ.get("HOLDPOINT_API_KEY"):
        headers["authorization"] = f"Bearer {key}"
    request = urllib.request.Request(f"{SERVER}/v1/responses", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)
    except urllib.error.HTTPError as refused:
        error = json.load(refused)["error"]
        sys.exit(f"{error['code']}: {error['message']}")


def shown(subject):
    return subject if isinstance(subject, str) else json.dumps(subject, indent=2, ensure_ascii=False)


if len(sys.argv) != 3:
    sys.exit(__doc__)
workflow, words = sys.argv[1:]
response = call({"model": workflow, "input": words})
while waiting := (response.get("workflow_waiting") or {}).get("requests"):
    asked = waiting[0]
    print(asked["prompt"])
    if asked.get("subject") is not None:
        print(f"\n{shown(asked['subject'])}\n")
    if asked.get("verbs"):
        print("  or  ".join(asked["verbs"]))
    answer = input("> ")
    item = {"type": "function_call_output", "call_id": asked["request_id"], "output": answer}
    if asked.get("decides"):
        item["digest"] = asked["digest"]
    response = call({"model": workflow, "previous_response_id": response["id"], "input": [item]})
for item in response["output"]:
    for part in item.get("content") or []:
        print(part.get("text", ""))
