"""Tool: the server whose deeds are counted. It writes down who asked for what with which key before it answers."""

import asyncio
import collections
import json
import random
import time


class Tool:
    """What was asked, by the amount that it was asked for."""

    def __init__(self, seed):
        self.asked = collections.defaultdict(list)
        self.dice = random.Random(seed)
        self.port = None

    async def start(self):
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    async def serve(self, reader, writer):
        try:
            while await self.answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def answer(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        path = lines[0].split(" ")[1]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        amount = int(json.loads(body)["amount"])
        key = headers.get("idempotency-key", "")
        self.asked[amount].append((time.time(), path, key))
        if path == "/stuck" and len(self.asked[amount]) == 1:
            # Whoever asks first is never answered: only another comes to an end.
            await reader.read()
            return False
        if path == "/slow":
            # Long enough that something fails meanwhile.
            await asyncio.sleep(self.dice.uniform(0.5, 4))
        told = b'"paid"'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(told), told))
        await writer.drain()
        return headers.get("connection", "").lower() != "close"
