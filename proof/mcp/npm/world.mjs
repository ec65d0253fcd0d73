// A bridge of its own for one run: the simulated cloud, the door, agents and their tokens, all on loopback and in a
// folder that goes away with it. Nothing here knows MCP.
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createWriteStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** How long anything may take that happens by itself, in milliseconds. */
export const patience = 30_000;

export const toolsets = ['bridge', 'team', 'threads', 'channels', 'memory'];

const bridgeYAML = (port, cloud, workspace) => `listen: 127.0.0.1:${port}
token: \${file:bridge.token}
key: \${file:bridge.key}
cursor: { key: "\${file:cursor.key}", url: "${cloud}" }
poll: { min: 100ms, max: 400ms }
mail: { per_minute: 10000 }
log: { level: info }
orchestrators:
  - { name: main, repo: github.com/me/agent-env, workspace: "${workspace}", toolsets: [${toolsets.join(', ')}] }
`;

// The same command twice in a turn waits for a person, so that there are several actions. No relay answers for them; the
// door only asks.
const actions = ['backup_one', 'backup_two', 'backup_three', 'backup_four'];

// The limits are out of the way: the tests make more calls in a turn than an agent would.
const allowlistYAML = `repos: [github.com/me/my-app, github.com/me/agent-env]
actions:
${actions.map((a) => `  ${a}: {}`).join('\n')}
limits: { commands_per_turn: 1000, launches_per_hour: 1000, open_subagents: 1000, depth: 3, turns_per_chain: 10000, reminders: 1000, tree: { launches: 10000, open: 1000, turns: 10000 } }
`;

/** A port that nobody has now, below those that outgoing connections take. */
async function freePort() {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 18_000);
    const free = await new Promise((done) => {
      const probe = createServer().once('error', () => done(false));
      probe.listen(port, '127.0.0.1', () => probe.close(() => done(true)));
    });
    if (free) return port;
  }
}

export class World {
  #children = new Set();

  /** The actions that an agent may ask for. */
  actions = actions;

  constructor(program) {
    this.program = program;
    this.dir = mkdtempSync(join(tmpdir(), 'drawbridge-conformance-'));
    this.workspace = mkdtempSync(join(this.dir, 'workspace-'));
    process.on('exit', () => this.#children.forEach((c) => c.kill('SIGKILL')));
    for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));
    setTimeout(() => {
      console.error(`nothing went on for too long; see ${this.dir}`);
      process.exit(1);
    }, 10 * patience).unref();
  }

  /** Starts the cloud and the bridge and launches the agent main. */
  async start() {
    const secret = () => randomBytes(32).toString('hex');
    this.token = secret();
    for (const [name, text] of Object.entries({ 'bridge.token': this.token, 'bridge.key': secret(), 'cursor.key': 'cursor_sim_key', 'allowlist.yaml': allowlistYAML })) {
      writeFileSync(join(this.dir, name), text, { mode: 0o600 });
    }
    const cloud = await this.#spawn('cloud', ['cloudsim', '--listen', '127.0.0.1:0'], /cloudsim ready (\S+)/);
    this.port = await freePort();
    this.url = `http://127.0.0.1:${this.port}`;
    writeFileSync(join(this.dir, 'bridge.yaml'), bridgeYAML(this.port, cloud.found, this.workspace), { mode: 0o600 });
    await this.serve();
    await this.cli('launch', 'github.com/me/agent-env', 'Begin.');
  }

  /** Starts the bridge on its folder. */
  async serve() {
    this.bridge = await this.#spawn('bridge', ['serve', '--config', join(this.dir, 'bridge.yaml')], /"message":"ready"/);
  }

  /** Kills the bridge as a power failure would. */
  async crash() {
    await this.#end(this.bridge, 'SIGKILL');
  }

  /** What a command of the program needs to reach this bridge as its operator. */
  get env() {
    return { PATH: process.env.PATH, HOME: this.dir, TMPDIR: this.dir, DRAWBRIDGE_URL: this.url, DRAWBRIDGE_TOKEN: this.token };
  }

  /** Runs a command of the program and returns what it printed. */
  async cli(...args) {
    return (await run(this.program, args, { cwd: this.dir, env: this.env })).stdout.trim();
  }

  /** Makes a token for an agent. */
  async mint(agent) {
    return this.cli('token', agent);
  }

  /** Waits until look returns something. */
  async until(what, look) {
    const limit = Date.now() + patience;
    for (;;) {
      const found = await look();
      if (found) return found;
      if (Date.now() > limit) throw new Error(`${what} never happened; see ${this.dir}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  /** The log of the bridge so far. */
  get log() {
    return readFileSync(join(this.dir, 'bridge.log'), 'utf8');
  }

  /** Stops everything. Its folder stays when keep is true. */
  async stop(keep = false) {
    for (const child of [...this.#children].reverse()) await this.#end(child, 'SIGTERM');
    if (!keep) rmSync(this.dir, { recursive: true, force: true });
  }

  /** Starts the program and returns when it says that it is ready. */
  async #spawn(name, args, ready) {
    const child = spawn(this.program, args, { cwd: this.dir, env: this.env, stdio: ['ignore', 'ignore', 'pipe'] });
    this.#children.add(child);
    child.ended = new Promise((done) => child.once('exit', done));
    const log = createWriteStream(join(this.dir, `${name}.log`), { flags: 'a' });
    let said = '';
    await new Promise((done, fail) => {
      child.once('error', fail);
      child.once('exit', (code) => fail(new Error(`${name} ended with ${code}: ${said}`)));
      child.stderr.on('data', (data) => {
        log.write(data);
        if (child.found) return;
        said += data;
        const match = said.match(ready);
        if (match) {
          child.found = match[1] ?? match[0];
          done();
        }
      });
    });
    return child;
  }

  async #end(child, signal) {
    child.kill(signal);
    await child.ended;
    this.#children.delete(child);
  }
}
