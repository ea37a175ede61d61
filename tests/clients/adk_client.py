"""Google's Agent Development Kit as a client: a workflow as a remote agent of its; a line for every turn.

usage: adk_client.py CARD_URL TEXT [VERB]

With a VERB the question that comes back, which ADK shows as a call for the user's input, is answered with it and
with its code.
"""

import asyncio
import json
import logging
import re
import sys
import warnings

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import InMemoryRunner
from google.genai import types

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)


async def say(runner, session, part):
    """What was told, and the call for the user's input, if there was one."""
    told, asked = [], None
    message = types.Content(role="user", parts=[part])
    async for event in runner.run_async(user_id="ada", session_id=session.id, new_message=message):
        for part in (event.content.parts if event.content else None) or []:
            if part.function_call:
                asked = part.function_call
            elif part.text and not part.thought:
                told.append(part.text)
        if event.error_message:
            told.append(f"error: {event.error_message}")
    words = asked.args["input_required"] if asked else None
    print(json.dumps({"told": told, "asked": words}), flush=True)
    return asked, words


async def main(card, text, verb=None):
    runner = InMemoryRunner(agent=RemoteA2aAgent(name="remote", agent_card=card), app_name="desk")
    session = await runner.session_service.create_session(app_name="desk", user_id="ada")
    asked, words = await say(runner, session, types.Part(text=text))
    if verb:
        code = re.search(rf"{verb} ([A-Z]+)", words).group(1)
        response = {"result": f"{verb} {code}"}
        answer = types.FunctionResponse(id=asked.id, name=asked.name, response=response)
        await say(runner, session, types.Part(function_response=answer))
    await runner.close()


asyncio.run(main(*sys.argv[1:]))
