// What a user of OpenAI's JavaScript SDK writes: start, answer, look, take up again. Prints JSON lines.
//
// node openai_client.mjs SDK_FOLDER BASE_URL ACT ARGUMENT...
import { createRequire } from "node:module";

const [folder, base, act, ...rest] = process.argv.slice(2);
const OpenAI = createRequire(folder + "/").call(null, "openai").default;
const client = new OpenAI({ baseURL: base + "/v1", apiKey: "none", maxRetries: 0 });

const tell = (value) => console.log(JSON.stringify(value));

const told = (response) => ({
  id: response.id,
  status: response.status,
  text: response.output_text ?? null,
  conversation: response.conversation.id,
  calls: response.output
    .filter((item) => item.type === "function_call")
    .map((call) => ({ name: call.name, call_id: call.call_id, arguments: JSON.parse(call.arguments) })),
});

const outputs = (pairs) => {
  const items = [];
  for (let at = 0; at < pairs.length; at += 2) {
    items.push({ type: "function_call_output", call_id: pairs[at], output: pairs[at + 1] });
  }
  return items;
};

async function stream(wish) {
  const events = client.responses.stream(wish);
  for await (const event of events) tell({ event: event.type, sequence: event.sequence_number ?? null });
  tell(told(await events.finalResponse()));
}

const acts = {
  async start(model, input) {
    tell(told(await client.responses.create({ model, input })));
  },
  async stream(model, input) {
    await stream({ model, input });
  },
  async answer(model, previous_response_id, ...pairs) {
    tell(told(await client.responses.create({ model, previous_response_id, input: outputs(pairs) })));
  },
  async stream_answer(model, previous_response_id, ...pairs) {
    await stream({ model, previous_response_id, input: outputs(pairs) });
  },
  async get(id) {
    tell(told(await client.responses.retrieve(id)));
  },
  async resume_stream(id, after) {
    const events = await client.responses.retrieve(id, { stream: true, starting_after: Number(after) });
    for await (const event of events) tell({ event: event.type, sequence: event.sequence_number });
  },
};

try {
  await acts[act](...rest);
} catch (error) {
  if (!(error instanceof OpenAI.APIError)) throw error;
  tell({ refused: error.code, status: error.status, param: error.param });
}
