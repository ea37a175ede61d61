"""Receive what a server tells of requests, check its signature, and print one line each.

    export HOLDPOINT_WEBHOOK_SECRET=a-long-random-text
    python3 examples/webhook.py 8080 &
    holdpoint serve --webhook-url http://127.0.0.1:8080/

Whatever is not answered with 2xx is told again: what has an id that was seen before is the same.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = os.environ["HOLDPOINT_WEBHOOK_SECRET"].encode()
# Older than this is no delivery, but somebody who kept one.
SECONDS_MAX = 300
seen = set()


def is_genuine(headers, body):
    told = (headers.get("webhook-id", ""), headers.get("webhook-timestamp", ""))
    if not told[1].isdigit() or abs(time.time() - int(told[1])) > SECONDS_MAX:
        return False
    code = hmac.new(SECRET, f"{told[0]}.{told[1]}.".encode() + body, hashlib.sha256).digest()
    ours = "v1," + base64.b64encode(code).decode()
    return any(hmac.compare_digest(ours, one) for one in headers.get("webhook-signature", "").split())


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        genuine = is_genuine(self.headers, body)
        self.send_response(204 if genuine else 401)
        self.end_headers()
        if genuine and (told := json.loads(body))["id"] not in seen:
            seen.add(told["id"])
            request = (told.get("request") or {}).get("request_id", "")
            print(told["type"], told["workflow_id"], told["run_id"], request, flush=True)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print(f"listening on {server.server_port}", flush=True)
server.serve_forever()
