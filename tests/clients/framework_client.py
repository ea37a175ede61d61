"""What users of agent frameworks write whose clients keep the conversation themselves. Prints a JSON line.

framework_client.py BASE_URL FRAMEWORK WORKFLOW FOLDER ACT WORDS [OPTION...]

FRAMEWORK  langchain, pydantic_ai, agents (OpenAI's Agents SDK), agent_framework (Microsoft's)
FOLDER     where the conversation is kept between two acts, as each framework keeps it
ACT        say: a person types something; answer: what they say to the question that came last
OPTION     undeclared   the client was given no tool `request_info`
           auto         pydantic-ai: previous_response_id = auto
           local        Agent Framework: store = False; the conversation is the client's
           in=ID        Agent Framework: the conversation to begin with
           key=KEY      LangChain: an Idempotency-Key
"""

import asyncio
import json
import pathlib
import sys

import openai
import openai.resources.responses  # It is loaded on first use otherwise.

base, framework, workflow, folder, act, words, *options = sys.argv[1:]
folder = pathlib.Path(folder)
options = dict(option.partition("=")[::2] for option in options)
# A person is asked: one schema for all clients.
PARAMETERS = {
    "type": "object",
    "properties": {"request_id": {"type": "string"}, "request": {"type": "object"}},
    "required": ["request_id", "request"],
}


def client():
    return openai.AsyncOpenAI(base_url=base + "/v1", api_key="none", max_retries=0)


def tell(text=None, asked=(), **more):
    calls = [call if isinstance(call, dict) else json.loads(call) for call in asked]
    prompts = [call["request"]["prompt"] for call in calls]
    print(json.dumps({"text": text, "asked": prompts, **more}), flush=True)


def langchain():
    from langchain_core.messages import (
        HumanMessage,
        ToolMessage,
        message_chunk_to_message,
        messages_from_dict,
        messages_to_dict,
    )
    from langchain_openai import ChatOpenAI

    headers = {"Idempotency-Key": options["key"]} if "key" in options else {}
    model = ChatOpenAI(
        model=workflow,
        base_url=base + "/v1",
        api_key="none",
        use_responses_api=True,
        max_retries=0,
        default_headers=headers,
    )
    kept = folder / "messages.json"
    messages = messages_from_dict(json.loads(kept.read_text())) if kept.exists() else []
    if act == "say":
        messages.append(HumanMessage(words))
    else:
        messages.append(ToolMessage(words, tool_call_id=messages[-1].tool_calls[-1]["id"]))
    pieces, whole = [], None
    for piece in model.stream(messages):
        pieces.append(piece.text)
        whole = piece if whole is None else whole + piece
    kept.write_text(json.dumps(messages_to_dict([*messages, message_chunk_to_message(whole)])))
    tell(whole.text, [call["args"] for call in whole.tool_calls], pieces="".join(pieces))


async def pydantic_ai():
    from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ExternalToolset, ToolDefinition
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.messages import ModelMessagesTypeAdapter
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kept = folder / "history.json"
    history = ModelMessagesTypeAdapter.validate_json(kept.read_bytes()) if kept.exists() else None
    declared = [ExternalToolset([ToolDefinition(name="request_info", parameters_json_schema=PARAMETERS)])]
    settings = {"openai_previous_response_id": "auto"} if "auto" in options else None
    agent = Agent(
        OpenAIResponsesModel(workflow, provider=OpenAIProvider(openai_client=client())),
        toolsets=[] if "undeclared" in options else declared,
        output_type=[str, DeferredToolRequests],
        model_settings=settings,
    )
    try:
        if act == "say":
            result = await agent.run(words, message_history=history)
        else:
            call = history[-1].tool_calls[-1]
            answers = DeferredToolResults(calls={call.tool_call_id: words})
            result = await agent.run(message_history=history, deferred_tool_results=answers)
    except UserError as error:
        return tell(stopped=str(error))
    kept.write_bytes(result.all_messages_json())
    asked = result.output.calls if isinstance(result.output, DeferredToolRequests) else []
    tell(result.response.text, [call.args for call in asked])


async def agents():
    from agents import Agent, FunctionTool, OpenAIResponsesModel, Runner, SQLiteSession, set_tracing_disabled
    from agents.exceptions import ModelBehaviorError

    set_tracing_disabled(True)
    asked = []

    async def ask(_, arguments):
        # The person is at the terminal: the words after `=` are what they say.
        asked.append(arguments)
        return options["says"]

    tool = FunctionTool(
        name="request_info",
        description="Asks a person.",
        params_json_schema=PARAMETERS,
        on_invoke_tool=ask,
        strict_json_schema=False,
    )
    agent = Agent(
        name="user",
        model=OpenAIResponsesModel(model=workflow, openai_client=client()),
        tools=[] if "undeclared" in options else [tool],
    )
    session = SQLiteSession("conversation", folder / "session.db")
    try:
        result = await Runner.run(agent, words, session=session)
    except ModelBehaviorError as error:
        return tell(stopped=str(error))
    tell(result.final_output, asked)


async def agent_framework():
    from agent_framework import Agent, AgentSession, Content, FunctionTool, Message
    from agent_framework_openai import OpenAIChatClient

    kept, pending = folder / "session.json", folder / "pending.json"
    tool = FunctionTool(name="request_info", description="Asks a person.", input_model=PARAMETERS, func=None)
    agent = Agent(
        client=OpenAIChatClient(model=workflow, async_client=client()),
        tools=[] if "undeclared" in options else [tool],
        default_options={"store": False} if "local" in options else {},
    )
    session = agent.create_session()
    if kept.exists():
        session = AgentSession.from_dict(json.loads(kept.read_text()))
    elif "in" in options:
        session = agent.get_session(options["in"])
    said = words
    if act == "answer":
        call = json.loads(pending.read_text())
        said = Message("tool", [Content.from_function_result(call, result=words)])
    result = await agent.run(said, session=session)
    calls = [content for message in result.messages for content in message.contents]
    calls = [content for content in calls if content.type == "function_call"]
    kept.write_text(json.dumps(session.to_dict()))
    if calls:
        pending.write_text(json.dumps(calls[-1].call_id))
    tell(result.text, [call.arguments for call in calls], session=session.service_session_id)


def refusal(error):
    """What the server said, however deep the framework keeps it."""
    while error is not None:
        if isinstance(error, openai.APIStatusError):
            return {"refused": error.code, "status": error.status_code, "param": error.param}
        error = error.__cause__ or error.__context__


try:
    acting = globals()[framework]()
    if acting is not None:
        asyncio.run(acting)
except Exception as error:  # noqa: BLE001: each framework wraps a refusal in its own way.
    told = refusal(error)
    if told is None:
        raise
    tell(**told)
