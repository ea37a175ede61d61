// A2A's own JavaScript SDK against Holdpoint: one small act a process, what was told as JSON lines.
//
// usage: node a2a_client.mjs SDK_FOLDER BASE_URL send TEXT | answer TASK TEXT | say CONTEXT TEXT [MESSAGE_ID]
//     | watch TASK | follow TASK | get TASK
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';

const [folder, base, act, ...rest] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { ClientFactory } = require('@a2a-js/sdk/client');
const { Role, TaskState } = require('@a2a-js/sdk');

const tell = (fields) => console.log(JSON.stringify(fields));
const textOf = (part) => (part.content?.$case === 'text' ? part.content.value : '');
const words = (holder) => (holder?.parts ?? []).map(textOf).filter(Boolean).join(' ');
const tellStatus = (kind, task, status) =>
  tell({ kind, task, state: TaskState[status.state], words: words(status.message) });

const tellHistory = (task) => {
  for (const said of task.history.filter((one) => one.role === Role.ROLE_AGENT)) {
    tell({ kind: 'history', task: task.id, words: words(said) });
  }
};

const tellEvent = ({ payload }) => {
  if (payload.$case === 'task') {
    tellStatus('task', payload.value.id, payload.value.status);
  } else if (payload.$case === 'statusUpdate') {
    tellStatus('status_update', payload.value.taskId, payload.value.status);
  } else if (payload.$case === 'artifactUpdate') {
    const { taskId, artifact } = payload.value;
    tell({ kind: 'artifact_update', task: taskId, words: words(artifact) });
  }
};

const message = (text, taskId = '', contextId = '', messageId = randomUUID()) => ({
  tenant: '',
  message: {
    messageId,
    contextId,
    taskId,
    role: Role.ROLE_USER,
    parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  },
  configuration: undefined,
  metadata: undefined,
});

// With its slash: the card lies below the agent, not beside it.
const client = await new ClientFactory().createFromUrl(`${base}/`);
if (act === 'send' || act === 'answer') {
  const [text, task] = [...rest].reverse();
  for await (const event of client.sendMessageStream(message(text, task))) tellEvent(event);
} else if (act === 'say') {
  const [context, text, id] = rest;
  for await (const event of client.sendMessageStream(message(text, '', context, id))) tellEvent(event);
} else if (act === 'watch' || act === 'follow') {
  for await (const event of client.resubscribeTask({ tenant: '', id: rest[0] })) {
    if (act === 'follow' && event.payload.$case === 'task') tellHistory(event.payload.value);
    tellEvent(event);
  }
} else if (act === 'get') {
  const task = await client.getTask({ tenant: '', id: rest[0] });
  tellStatus('task', task.id, task.status);
  for (const artifact of task.artifacts) tell({ kind: 'artifact', words: words(artifact) });
}
