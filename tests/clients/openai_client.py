"""What a user of OpenAI's Python SDK writes: start, answer, look, take up again. Prints JSON lines.

openai_client.py BASE_URL ACT ARGUMENT...
"""

import json
import sys

import openai
import openai.resources.responses  # It is loaded on first use otherwise.

base, act, *rest = sys.argv[1:]
client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0)


def tell(value):
    print(json.dumps(value), flush=True)


def bare(value):
    """Without what the SDK adds to a response that it gathered from a stream."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if isinstance(value, dict):
        return {name: bare(item) for name, item in value.items() if name not in ("parsed", "parsed_arguments")}
    return value


def told(response):
    """A response as its user reads it."""
    calls = [item for item in response.output if item.type == "function_call"]
    return {
        "id": response.id,
        "status": response.status,
        "text": response.output_text,
        "conversation": response.conversation.id,
        "calls": [
            {"name": call.name, "call_id": call.call_id, "arguments": json.loads(call.arguments)}
            for call in calls
        ],
        "whole": bare(response.to_dict()),
    }


def outputs(pairs):
    pairs = list(zip(pairs[::2], pairs[1::2]))
    return [{"type": "function_call_output", "call_id": call, "output": value} for call, value in pairs]


def stream(**wish):
    """The SDK's own gathering of a stream, and every event as it came."""
    with client.responses.stream(**wish) as events:
        for event in events:
            tell({"event": event.type, "sequence": getattr(event, "sequence_number", None)})
        tell(told(events.get_final_response()))


try:
    if act == "start":
        workflow, words = rest
        tell(told(client.responses.create(model=workflow, input=words)))
    elif act == "stream":
        workflow, words = rest
        stream(model=workflow, input=words)
    elif act == "answer":
        workflow, previous, *pairs = rest
        tell(told(client.responses.create(model=workflow, previous_response_id=previous, input=outputs(pairs))))
    elif act == "stream_answer":
        workflow, previous, *pairs = rest
        stream(model=workflow, previous_response_id=previous, input=outputs(pairs))
    elif act == "in_conversation":
        workflow, conversation, *pairs = rest
        tell(told(client.responses.create(model=workflow, conversation=conversation, input=outputs(pairs))))
    elif act == "go_on":
        workflow, previous, words = rest
        tell(told(client.responses.create(model=workflow, previous_response_id=previous, input=words)))
    elif act == "say_in":
        workflow, conversation, words = rest
        tell(told(client.responses.create(model=workflow, conversation=conversation, input=words)))
    elif act == "whole_history":
        # As many do it: nothing is kept by the server, everything is sent every time.
        workflow, words, *answers = rest
        items = [{"role": "user", "content": words}]
        response = client.responses.create(model=workflow, input=items)
        tell(told(response))
        for value in answers:
            items += [item.to_dict() for item in response.output]
            call = next(item for item in response.output if item.type == "function_call")
            items += outputs([call.call_id, value])
            response = client.responses.create(model=workflow, input=items)
            tell(told(response))
    elif act == "get":
        tell(told(client.responses.retrieve(rest[0])))
    elif act == "resume_stream":
        for event in client.responses.retrieve(rest[0], stream=True, starting_after=int(rest[1])):
            tell({"event": event.type, "sequence": event.sequence_number})
    elif act == "cancel":
        tell(told(client.responses.cancel(rest[0])))
    elif act == "input_items":
        tell([item.to_dict() for item in client.responses.input_items.list(rest[0])])
    elif act == "put_items":
        # What OpenAI's own server takes: a conversation that begins with something, and gets more.
        said = [{"type": "message", "role": "user", "content": rest[0]}]
        conversation = client.conversations.create()
        for put in (
            lambda: client.conversations.create(items=said),
            lambda: client.conversations.items.create(conversation.id, items=said),
        ):
            try:
                put()
                tell("taken")
            except openai.APIStatusError as error:
                tell({"refused": error.code, "status": error.status_code, "param": error.param})
    elif act == "models":
        tell([model.id for model in client.models.list()])
    else:
        raise SystemExit(f"there is no act `{act}`")
except openai.APIStatusError as error:
    tell({"refused": error.code, "status": error.status_code, "param": error.param, "body": error.body})
