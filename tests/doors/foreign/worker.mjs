// A worker's whole loop with a client that nobody here wrote: node worker.mjs http URL TOKEN | stdio COMMAND…
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [how, where, ...rest] = process.argv.slice(2);
const transport =
  how === "http"
    ? new StreamableHTTPClientTransport(new URL(where), {
        requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } },
      })
    : new StdioClientTransport({ command: where, args: rest, env: process.env });
const client = new Client({ name: "foreign", version: "1" });
await client.connect(transport);

const call = async (name, args = {}) => {
  const answer = await client.callTool({ name, arguments: args });
  if (answer.isError) throw new Error(answer.content[0].text);
  return JSON.parse(answer.content[0].text).result;
};

const claim = await call("claim_next_task", { role: "worker", wait: 20 });
const scopes = await call("claim_scopes", { patterns: ["docs"] });
await call("log_progress", { handle: claim.handle, note: "half of it" });
const asked = await call("ask_human", {
  title: "Which grammar?",
  action_owner: "decision",
  impact: "the parser waits",
  options: ["PEG", "LR"],
  task: claim.handle,
});
console.log(asked.ask.id); // whoever started this answers it now
let woken;
do woken = await call("wait_for", { wait: 20 });
while (woken.answers.length === 0);
const [response] = (await call("read_answers")).responses;
await call("acknowledge_answer", { ask: response.id, response_seq: response.response_seq, outcome: "done so" });
const done = await call("complete_task", { handle: claim.handle, review: true, result: "parser.py" });
console.log(`${claim.handle} ${done.task.status} ${scopes.granted}`);
await client.close();
