// What users of Vercel's AI SDK write, which keeps the conversation itself. Prints a JSON line.
//
// framework_client.mjs SDK_FOLDER BASE_URL WORKFLOW FOLDER ACT WORDS [OPTION...]
//
// ACT     say: a person types something; answer: what they say to the question that came last
// OPTION  declared   the client was given a tool `request_info`, which its person answers
//         key=KEY    an Idempotency-Key

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [sdk, base, workflow, folder, act, words, ...options] = process.argv.slice(2);
const key = options.find((option) => option.startsWith("key="))?.slice(4);
const found = createRequire(pathToFileURL(join(sdk, "package.json")));
const load = (name) => import(pathToFileURL(found.resolve(name)));
const { jsonSchema, streamText, tool } = await load("ai");
const { createOpenAI } = await load("@ai-sdk/openai");

const kept = join(folder, "messages.json");
const messages = existsSync(kept) ? JSON.parse(readFileSync(kept)) : [];
if (act === "say") {
  messages.push({ role: "user", content: words });
} else {
  const call = messages.at(-1).content.findLast((part) => part.type === "tool-call");
  const { toolCallId, toolName } = call;
  const result = { type: "tool-result", toolCallId, toolName, output: { type: "text", value: words } };
  messages.push({ role: "tool", content: [result] });
}
const inputSchema = jsonSchema({
  type: "object",
  properties: { request_id: { type: "string" }, request: { type: "object" } },
  required: ["request_id", "request"],
});
const request_info = tool({ description: "Asks a person.", inputSchema });
const headers = key ? { "Idempotency-Key": key } : {};
const openai = createOpenAI({ baseURL: `${base}/v1`, apiKey: "none", headers });
let error;
const result = streamText({
  model: openai.responses(workflow),
  messages,
  tools: options.includes("declared") ? { request_info } : undefined,
  maxRetries: 0,
  onError: (event) => (error = event.error),
});
let pieces = "";
for await (const piece of result.textStream) pieces += piece;
if (error?.statusCode) {
  const { code, param } = JSON.parse(error.responseBody).error;
  console.log(JSON.stringify({ refused: code, status: error.statusCode, param }));
} else if (error) {
  throw error;
} else {
  const calls = await result.toolCalls;
  const asked = calls.map((call) => call.input.request.prompt);
  console.log(JSON.stringify({ text: await result.text, pieces, asked }));
  messages.push(...(await result.response).messages);
  writeFileSync(kept, JSON.stringify(messages));
}
