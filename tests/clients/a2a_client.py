"""A2A's own Python SDK against Holdpoint: one small act a process, what was told as JSON lines.

usage: a2a_client.py BASE_URL BINDING send TEXT | answer TASK TEXT | say CONTEXT TEXT [MESSAGE_ID]
    | watch TASK | follow TASK | get TASK
"""

import asyncio
import json
import sys
import uuid

from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
import grpc
import httpx


def message(text, task="", context="", id=""):
    return SendMessageRequest(
        message=Message(
            message_id=id or str(uuid.uuid4()),
            task_id=task,
            context_id=context,
            role=Role.ROLE_USER,
            parts=[Part(text=text)],
        )
    )


def tell(**fields):
    print(json.dumps(fields), flush=True)


def tell_status(kind, task, status):
    words = " ".join(part.text for part in status.message.parts if part.text)
    tell(kind=kind, task=task, state=TaskState.Name(status.state), words=words)


def tell_history(task):
    for said in task.history:
        if said.role == Role.ROLE_AGENT:
            tell(kind="history", task=task.id, words=said.parts[0].text)


def tell_event(event):
    which = event.WhichOneof("payload")
    if which == "task":
        tell_status(which, event.task.id, event.task.status)
    elif which == "status_update":
        tell_status(which, event.status_update.task_id, event.status_update.status)
    elif which == "artifact_update":
        update = event.artifact_update
        words = update.artifact.parts[0].text
        tell(kind=which, task=update.task_id, words=words, append=update.append)


async def main(base, binding, act, *rest):
    async with httpx.AsyncClient(timeout=30) as http:
        config = ClientConfig(
            httpx_client=http,
            supported_protocol_bindings=[binding],
            grpc_channel_factory=grpc.aio.insecure_channel,
        )
        client = await ClientFactory(config).create_from_url(base)
        if act in ("send", "answer"):
            *task, text = rest
            async for event in client.send_message(message(text, *task)):
                tell_event(event)
        elif act == "say":
            async for event in client.send_message(message(rest[1], "", rest[0], *rest[2:])):
                tell_event(event)
        elif act in ("watch", "follow"):
            async for event in client.subscribe(SubscribeToTaskRequest(id=rest[0])):
                if act == "follow" and event.HasField("task"):
                    tell_history(event.task)
                if event.HasField("task"):
                    for artifact in event.task.artifacts:
                        tell(kind="artifact", task=event.task.id, words=artifact.parts[0].text)
                tell_event(event)
        elif act == "get":
            task = await client.get_task(GetTaskRequest(id=rest[0]))
            tell_status("task", task.id, task.status)
            for artifact in task.artifacts:
                tell(kind="artifact", words=artifact.parts[0].text)
        await client.close()


asyncio.run(main(*sys.argv[1:]))
