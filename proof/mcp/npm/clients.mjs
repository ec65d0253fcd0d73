// node clients.mjs <released program>: the official TypeScript clients, as they come from the registry, against a running bridge with the
// simulated cloud: every tool over HTTP and over `drawbridge mcp`, in both eras of the protocol, and what a token opens and does not.
import { strict as assert } from 'node:assert';
import { Client as NewClient, StreamableHTTPClientTransport as NewHTTP } from '@modelcontextprotocol/client';
import { StdioClientTransport as NewStdio } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as OldHTTP } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { everyTool } from './tools.mjs';
import { World, patience } from './world.mjs';

// The two lines of the TypeScript SDK: the first speaks the protocols with sessions, the second the one without.
const eras = {
  '2025-11-25': { HTTP: OldHTTP, Stdio: OldStdio, client: () => new OldClient({ name: 'clients', version: '1' }) },
  '2026-07-28': {
    HTTP: NewHTTP, Stdio: NewStdio,
    client: () => new NewClient({ name: 'clients', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
  },
};

// How many tools all sets have together; README.md lists them.
const tools = 35;

/** Opens the door. `way` is http or stdio, `headers` go along over HTTP. */
async function open(world, era, way, agent, token, headers = {}) {
  const { HTTP, Stdio, client } = eras[era];
  const c = client();
  const transport = way === 'http'
    ? new HTTP(new URL(`${world.url}/mcp`), { requestInit: { headers: { Authorization: `Bearer ${token}`, ...headers } } })
    : new Stdio({ command: world.program, args: ['mcp', '--agent', agent], env: { ...world.env, ...(token && { DRAWBRIDGE_AGENT_TOKEN: token }) }, stderr: 'ignore' });
  await c.connect(transport, { timeout: patience });
  c.sdkTransport = transport;
  c.call = (name, args) => c.callTool({ name, arguments: args });
  return c;
}

/** Lists and calls everything, as the agent main and a child of it. */
async function drive(world, era, way, action) {
  const round = `${way}-${era}`;
  const token = way === 'http' ? await world.mint('main') : undefined;
  const main = await open(world, era, way, 'main', token);
  const { tools: listed } = await main.listTools();
  assert.equal(listed.length, tools, `the door lists ${listed.length} tools`);
  for (const t of listed) assert(t.description.length > 20 && t.inputSchema.type === 'object', `${t.name} is not described`);
  // The clients check every answer against the output schema that they listed.
  for (const t of listed) assert(t.title && t.outputSchema?.type === 'object' && typeof t.annotations?.destructiveHint === 'boolean', `${t.name} says too little of itself`);
  assert.match(main.getInstructions(), /You are the agent main; your agent id is agt_/);

  const [worker, sibling] = await Promise.all(['worker', 'sibling'].map(async (name) => {
    const r = await main.call('spawn_agent', { name: `${name}-${round}`, instructions: `Wait, ${name}.`, repo: 'github.com/me/my-app' });
    assert.equal(r.isError ?? false, false, r.content[0].text);
    return r.structuredContent;
  }));
  await world.cli('channels', 'add', 'general', worker.name);
  const child = await open(world, era, way, worker.name, way === 'http' ? await world.mint(worker.name) : undefined);
  const id = (await main.call('list_agents', {})).structuredContent.you;
  const called = await everyTool({ main, child, id, childID: worker.agent_id, sibling: sibling.agent_id, round, action, workspace: world.workspace });
  assert.deepEqual([...called].sort(), listed.map((t) => t.name).sort(), 'some tools were not called');
  await assert.rejects(main.call('no_such_tool', {}), /no_such_tool/, 'a tool that is not there is an error of the protocol');
  await Promise.all([main.close(), child.close()]);
  console.log(`${era} over ${way}: ${called.size} tools called well and badly`);
}

/** What the door says to a request that no client would make; body is left out of a GET. */
async function status(world, headers, body, path = '/mcp') {
  const r = await fetch(world.url + path, {
    method: body ? 'POST' : 'GET', body: body && JSON.stringify(body),
    headers: { 'Content-Type': 'application/json', Accept: body ? 'application/json, text/event-stream' : 'text/event-stream', ...headers },
  });
  await r.body?.cancel();
  return r.status;
}

/** Tells the errors of a client that was turned away with the door's own words, wherever the client keeps them. */
const turnedAway = (words) => (err) => {
  assert.match(`${err.message} ${err.data?.text ?? ''}`, words);
  return true;
};
const unknown = turnedAway(/this token is unknown or was revoked/);
// The newer client keeps to itself what the pipe answered to its first question.
const another = turnedAway(/this token is not that of agent|did not offer pinned protocol version/);

const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };

/** A stolen session, a token for another agent, one that nobody gave out, and one that was revoked. */
async function shut(world) {
  await world.cli('launch', 'github.com/me/agent-env', 'Begin.', '--name', 'thief');
  for (const era of Object.keys(eras)) {
    await assert.rejects(open(world, era, 'http', 'main', 'dbt_guessed'), unknown, `${era}: an unknown token opens the door`);
    await assert.rejects(open(world, era, 'http', 'main', await world.mint('thief'), { 'Drawbridge-Agent': 'main' }), another, `${era}: another's token opens the door`);
    await assert.rejects(open(world, era, 'stdio', 'main', await world.mint('thief')), another, `${era}: another's token opens the pipe`);
  }
  const token = await world.mint('main');
  const victim = await open(world, '2025-11-25', 'http', 'main', token);
  const session = { 'Mcp-Session-Id': victim.sdkTransport.sessionId, 'Mcp-Protocol-Version': '2025-11-25' };
  const bearer = (t) => ({ Authorization: `Bearer ${t}` });
  assert.equal(await status(world, { ...session, ...bearer(token) }, ping), 200, 'the session is not there for its own token');
  for (const thief of [await world.mint('thief'), await world.mint('main')]) {
    for (const body of [ping, undefined]) {
      const got = await status(world, { ...session, ...bearer(thief) }, body);
      assert(got === 403 || got === 404, `a stolen session answers ${got} to another token`);
    }
  }
  assert.equal(await status(world, session, ping), 401, 'a stolen session opens without a token');
  assert.equal(await status(world, { ...session, ...bearer(token), Origin: 'https://evil.example' }, ping), 403, 'a page of another site gets in');

  // Revoked: what it opened is over, in both eras, and nothing opens any more.
  const other = await open(world, '2026-07-28', 'http', 'main', token);
  await other.call('do_nothing', {});
  await world.cli('token', 'main', '--revoke');
  for (const c of [victim, other]) await assert.rejects(c.call('do_nothing', {}), unknown, 'a revoked token still calls');
  for (const era of Object.keys(eras)) await assert.rejects(open(world, era, 'http', 'main', token), unknown);
  await Promise.all([victim.close(), other.close()]);
  console.log('stolen and revoked: the door stays shut');
}

/** The bridge is killed under clients on a pipe, and comes back: the same clients go on. */
async function killed(world) {
  const clients = await Promise.all(Object.keys(eras).map((era) => open(world, era, 'stdio', 'main')));
  const label = 'before-the-crash';
  await clients[0].call('update_memory', { label, content: 'kept' });
  await clients[1].call('do_nothing', {}); // the newer client shakes no hands, so that only now its process is known to have a token
  await world.crash();
  // A connection that was open when the bridge died may take the call and lose it.
  for (const c of clients) await assert.rejects(c.call('do_nothing', {}), /no bridge answers|the bridge gave no answer/);
  await world.serve();
  for (const [i, c] of clients.entries()) {
    const r = await c.call('update_memory', { label, content: 'kept', if_version: i + 1 });
    assert.equal(r.structuredContent.version, i + 2, 'what was told before the crash is gone');
  }
  await Promise.all(clients.map((c) => c.close()));
  console.log('killed and started again: the clients on a pipe go on');
}

const world = new World(process.argv[2]);
let kept = true;
try {
  await world.start();
  await world.cli('channels', 'create', 'general', 'main');
  const actions = world.actions.values();
  for (const era of Object.keys(eras)) {
    for (const way of ['http', 'stdio']) await drive(world, era, way, actions.next().value);
  }
  await killed(world);
  await shut(world);
  assert.doesNotMatch(world.log, /dbt_|"level":"error"/, 'the log of the bridge has a token or an error in it');
  kept = false;
} finally {
  if (kept) console.error(`what was left is in ${world.dir}`);
  await world.stop(kept);
}
