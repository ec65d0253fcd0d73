// node released.mjs <released program>: the official suite against the program as it is released, without the fixtures that the suite asks for.
// A check may fail only because it asks for such a fixture or for a capability that the program does not declare. What needs neither must
// pass. What it does not declare it answers with -32601, which is one of the reasons.
import { strict as assert } from 'node:assert';
import { join } from 'node:path';
import { bearerProxy } from './proxy.mjs';
import { conformance, counted } from './runs.mjs';
import { World } from './world.mjs';

// The reasons for which the released program may not pass a check.
const excused = [
  /unknown tool "(test_|json_schema_)/,
  /method not found: "(prompts|resources|completion|logging)\//,
  /Tool 'json_schema_2020_12_tool' not found/,
  /^[\w-]+: [\w-]+: (FAILURE|SKIPPED|WARNING) (Not testable|Prerequisite failed|Skipped)/,
  // These ask for a fixture in other words: a tool that takes long, one that asks back, a list of tools or prompts that changes.
  /^server-sse-polling: server-sse-(retry-field|disconnect-resume): WARNING/,
  /^input-required-result-missing-input-response: sep-2322-missing-response-rerequests: WARNING/,
  /^input-required-result-multi-round: sep-2322-multi-round-r1: FAILURE Expected InputRequiredResult/,
  /^server-stateless: sep-2575-server-sends-(prompts|tools)-list-changed-on-subscription: SKIPPED/,
  // These ask for resources, which are answered with -32601.
  /^caching: sep-2549-resources-read-caching-hints: SKIPPED/,
  /^sep-2164-resource-not-found: sep-2164-(error-code: WARNING .*got -32601|data-uri: WARNING)/,
];

// What needs no fixture, by the version of the protocol: each check of these scenarios passes.
const whole = {
  '2025-03-26': ['server-session-lifecycle'],
  '2025-06-18': ['ping', 'server-initialize', 'server-session-lifecycle', 'tools-list'],
  '2025-11-25': ['dns-rebinding-protection', 'ping', 'server-initialize', 'server-session-lifecycle', 'server-sse-multiple-streams', 'tools-list'],
  '2026-07-28': ['dns-rebinding-protection', 'http-header-validation', 'server-sse-multiple-streams', 'tools-list'],
};

/** Runs the suite in one version; returns how many checks passed, and how many were excused. */
async function measure(url, version, world) {
  const folder = join(world.dir, `released-${version}`);
  await conformance('server', '--url', url, '--suite', 'all', '--spec-version', version, '-o', folder);
  const results = counted(folder);
  let passed = 0;
  const why = [];
  for (const c of results.values()) {
    passed += c.SUCCESS;
    why.push(...c.why);
  }
  assert.deepEqual(why.filter((text) => !excused.some((reason) => reason.test(text))), [], `${version}: checks that need no fixture are not passed`);
  for (const name of whole[version]) {
    const c = results.get(name);
    assert(c && c.SUCCESS > 0 && c.why.length === 0, `${version}: ${name} does not pass: ${c?.why}`);
  }
  return { passed, excused: why.length };
}

const program = process.argv[2];
const world = new World(program);
let kept = true;
try {
  await world.start();
  const proxy = await bearerProxy(world.port, await world.mint('main'));
  for (const version of Object.keys(whole)) {
    const { passed, excused: left } = await measure(`${proxy.url}/mcp`, version, world);
    console.log(`released program, ${version}: ${passed} checks passed, ${left} ask for a fixture or a capability that it does not declare`);
  }
  await proxy.close();
  kept = false;
} finally {
  if (kept) console.error(`what was left is in ${world.dir}`);
  await world.stop(kept);
}
