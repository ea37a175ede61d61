// What users of Vercel's AI SDK write, which keeps the conversation itself. Prints a JSON line.
//
// framework_client.mjs SDK_FOLDER BASE_URL WORKFLOW FOLDER WORDS [KEY]

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [sdk, base, workflow, folder, words, key] = process.argv.slice(2);
const found = createRequire(pathToFileURL(join(sdk, "package.json")));
const load = (name) => import(pathToFileURL(found.resolve(name)));
const { streamText } = await load("ai");
const { createOpenAI } = await load("@ai-sdk/openai");

const kept = join(folder, "messages.json");
const messages = existsSync(kept) ? JSON.parse(readFileSync(kept)) : [];
messages.push({ role: "user", content: words });
const headers = key ? { "Idempotency-Key": key } : {};
const openai = createOpenAI({ baseURL: `${base}/v1`, apiKey: "none", headers });
let error;
const result = streamText({
  model: openai.responses(workflow),
  messages,
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
