"""A2A's Python SDK of protocol 0.3 against Holdpoint: one small act a process, what was told as JSON lines.

usage: a2a_client_03.py BASE_URL BINDING send TEXT | answer TASK TEXT | watch TASK | get TASK | card
"""

import asyncio
import json
import sys
import uuid

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, TaskIdParams, TaskQueryParams, TextPart
import grpc
import httpx


def message(text, task=None):
    parts = [Part(root=TextPart(text=text))]
    return Message(message_id=str(uuid.uuid4()), role=Role.user, parts=parts, task_id=task)


def tell(**fields):
    print(json.dumps(fields), flush=True)


def words(parts):
    return " ".join(part.root.text for part in parts if part.root.kind == "text")


def tell_status(kind, task, status):
    said = words(status.message.parts) if status.message else ""
    tell(kind=kind, task=task, state=status.state.value, words=said)


def tell_event(event):
    task, update = event
    if update is None:
        tell_status("task", task.id, task.status)
    elif update.kind == "status-update":
        tell_status("status_update", update.task_id, update.status)
    else:
        tell(kind="artifact_update", task=update.task_id, words=words(update.artifact.parts))


async def main(base, binding, act, *rest):
    async with httpx.AsyncClient(timeout=30) as http:
        card = await A2ACardResolver(http, base).get_agent_card()
        config = ClientConfig(
            httpx_client=http,
            supported_transports=[binding],
            use_client_preference=True,
            grpc_channel_factory=grpc.aio.insecure_channel,
        )
        client = ClientFactory(config).create(card)
        if act in ("send", "answer"):
            *task, text = rest
            async for event in client.send_message(message(text, *task)):
                tell_event(event)
        elif act == "watch":
            async for event in client.resubscribe(TaskIdParams(id=rest[0])):
                tell_event(event)
        elif act == "get":
            task = await client.get_task(TaskQueryParams(id=rest[0]))
            tell_status("task", task.id, task.status)
            for artifact in task.artifacts or []:
                tell(kind="artifact", words=words(artifact.parts))
        elif act == "card":
            card = await client.get_card()
            tell(kind="card", words=card.name)


asyncio.run(main(*sys.argv[1:]))
