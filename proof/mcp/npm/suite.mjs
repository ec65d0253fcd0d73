// node suite.mjs <program with the tag conformance> [--write]: the official suite against the door, every scenario for servers in every
// version of the protocol that the suite knows, and the extensions. What it counts must stand in docs/reference/mcp-conformance.md; --write puts
// it there.
import { strict as assert } from 'node:assert';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { bearerProxy } from './proxy.mjs';
import { conformance, counted, scenarios } from './runs.mjs';
import { World } from './world.mjs';

const here = import.meta.dirname;
const page = join(here, '../../../docs/reference/mcp-conformance.md');
const [begin, end] = ['<!-- measured -->', '<!-- /measured -->'];

/** Runs all scenarios of one version; or the extensions', which have a version each. */
async function measure(url, all, version, world) {
  const folder = join(world.dir, `results-${version}`);
  const which = version === 'extension' ? [] : ['--spec-version', version];
  const { code, text } = await conformance('server', '--url', url, '--suite', 'all', ...which, '--expected-failures', join(here, 'expected.yaml'), '-o', folder);
  assert.equal(code, 0, `the suite fails in ${version}:\n${text}`);
  const results = counted(folder);
  for (const [name, versions] of all) {
    if (!versions.includes(version)) results.delete(name);
    else assert(results.has(name), `the suite did not run ${name} in ${version}`);
  }
  return results;
}

/** One row for each scenario, one column for each version: checks passed, and those that were not. */
function table(all, versions, measured) {
  const cell = (name, version) => {
    const c = measured.get(version).get(name);
    if (!c) return '';
    return [`${c.SUCCESS} passed`, c.FAILURE && `${c.FAILURE} failed`, c.SKIPPED && `${c.SKIPPED} not asked`].filter(Boolean).join(', ');
  };
  const total = (version) => [...measured.get(version).values()].reduce((n, c) => n + c.SUCCESS, 0);
  const row = (cells) => `| ${cells.join(' | ')} |`;
  return [
    row(['scenario', ...versions]),
    row(['---', ...versions.map(() => '---')]),
    ...[...all.keys()].map((name) => row([`\`${name}\``, ...versions.map((v) => cell(name, v))])),
    row(['**scenarios**', ...versions.map((v) => `**${measured.get(v).size}**`)]),
    row(['**checks passed**', ...versions.map((v) => `**${total(v)}**`)]),
  ].join('\n');
}

/** Compares the page with what was measured, or writes it. */
function keep(text, write) {
  const now = readFileSync(page, 'utf8');
  const [head, rest] = now.split(begin);
  const wanted = `${head}${begin}\n\n${text}\n\n${end}${rest.split(end)[1]}`;
  if (write) writeFileSync(page, wanted);
  else assert.equal(now, wanted, 'docs/reference/mcp-conformance.md says something else; write it anew with scripts/conformance.sh --write');
}

/** Resumption, by the unmodified client: the stream of a call is closed under it, and it comes back for the answer. */
async function resumes(world, token) {
  let resumed = 0;
  const transport = new StreamableHTTPClientTransport(new URL(`${world.url}/mcp`), {
    requestInit: { headers: { Authorization: `Bearer ${token}` } },
    fetch: (url, init) => {
      if (new Headers(init?.headers).has('last-event-id')) resumed++;
      return fetch(url, init);
    },
  });
  const client = new Client({ name: 'resumes', version: '1' });
  await client.connect(transport);
  const result = await client.callTool({ name: 'test_reconnection', arguments: {} });
  assert.match(result.content[0].text, /you came back/);
  assert(resumed > 0, 'the answer came without a resumption');
  await transport.terminateSession();
  await client.close();
}

const [program, flag] = process.argv.slice(2);
const world = new World(program);
let kept = true;
try {
  await world.start();
  const token = await world.mint('main');
  assert.equal((await fetch(`${world.url}/mcp`, { method: 'POST', body: '{}' })).status, 401, 'the door opens without a token');
  const proxy = await bearerProxy(world.port, token);
  const all = await scenarios();
  const versions = [...new Set([...all.values()].flat())].sort();
  const measured = new Map();
  for (const version of versions) {
    const results = await measure(`${proxy.url}/mcp`, all, version, world);
    const failed = [...results.values()].flatMap((c) => c.why);
    if (version !== 'extension') assert.deepEqual(failed, [], `${version} has checks that are not passed`);
    measured.set(version, results);
    console.log(`${version}: ${results.size} scenarios, ${[...results.values()].reduce((n, c) => n + c.SUCCESS, 0)} checks passed, ${failed.length} not`);
  }
  await proxy.close();
  keep(table(all, versions, measured), flag === '--write');
  await resumes(world, token);
  console.log('resumption: the TypeScript client came back for its answer');
  kept = false;
} finally {
  if (kept) console.error(`what was left is in ${world.dir}`);
  await world.stop(kept);
}
