"""Receive what a server tells of requests, check its signature, and print one line each. Signed heads of its log are
kept, too, a line of JSON each.

    export HOLDPOINT_WEBHOOK_SECRET=a-long-random-text
    python3 examples/webhook.py 8080 heads.jsonl &
    holdpoint serve --webhook-url http://127.0.0.1:8080/
    tail -n 1 heads.jsonl | jq -r .note > head.txt     # for `holdpoint verify --since head.txt`

Whatever is not answered with 2xx is told again, so that it is answered when it is kept: what has an id that was seen
before is the same.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = os.environ.get("HOLDPOINT_WEBHOOK_SECRET", "").encode()
if not SECRET:
    sys.exit("HOLDPOINT_WEBHOOK_SECRET is not set: give it the text that the server has, too")
# Older than this is no delivery, but somebody who kept one.
SECONDS_MAX = 300
# Where heads are kept: whoever rewrites the server's disk does not have this file.
HEADS = sys.argv[2] if len(sys.argv) > 2 else "heads.jsonl"
seen = set()


def is_genuine(headers, body):
    told = (headers.get("webhook-id", ""), headers.get("webhook-timestamp", ""))
    if not told[1].isdigit() or abs(time.time() - int(told[1])) > SECONDS_MAX:
        return False
    code = hmac.new(SECRET, f"{told[0]}.{told[1]}.".encode() + body, hashlib.sha256).digest()
    ours = "v1," + base64.b64encode(code).decode()
    return any(hmac.compare_digest(ours, one) for one in headers.get("webhook-signature", "").split())


def keep(told):
    """Keeps a head, on the disk before anybody is told that it is."""
    with open(HEADS, "a", encoding="utf-8") as heads:
        heads.write(json.dumps(told) + "\n")
        heads.flush()
        os.fsync(heads.fileno())


def line(told):
    """What is printed. A head says whose it is, how many leaves it has and their root; all else is of a run."""
    if told["type"] == "evidence.head":
        return " ".join([told["type"], *told["note"].splitlines()[:3]])
    request = told.get("request_id") or (told.get("request") or {}).get("request_id", "")
    return " ".join([told["type"], told.get("workflow_id", ""), told.get("run_id", ""), request]).rstrip()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        genuine = is_genuine(self.headers, body)
        if genuine and (told := json.loads(body))["id"] not in seen:
            if told["type"] == "evidence.head":
                keep(told)
            print(line(told), flush=True)
            seen.add(told["id"])
        self.send_response(204 if genuine else 401)
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print(f"listening on {server.server_port}", flush=True)
server.serve_forever()
