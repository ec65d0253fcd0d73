// How the official suite is run and how its results are counted, for the door with its fixtures and for the released program.
import { strict as assert } from 'node:assert';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const here = import.meta.dirname;
const suite = join(here, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');

/** Runs the suite's program; its exit code and everything it printed. */
export const conformance = (...args) =>
  new Promise((done) => {
    execFile(process.execPath, [suite, ...args], { cwd: here, maxBuffer: 64 << 20 }, (err, out, errors) => done({ code: err?.code ?? 0, text: out + errors }));
  });

/** The suite's scenarios for servers: name to versions, in its own order. */
export async function scenarios() {
  const { text } = await conformance('list', '--server');
  const found = new Map();
  for (const [, name, versions] of text.matchAll(/^ +- (\S+) \[(.*)\]$/gm)) found.set(name, versions.split(','));
  assert(found.size > 60, `the suite lists only ${found.size} scenarios`);
  return found;
}

/** What the checks of each scenario in a folder of results came to. */
export function counted(folder) {
  const results = new Map();
  for (const name of readdirSync(folder)) {
    const [, scenario] = name.match(/^server-(.*)-\d{4}-\d\d-\d\dT/);
    const count = { SUCCESS: 0, FAILURE: 0, WARNING: 0, SKIPPED: 0, INFO: 0, why: [], passed: [] };
    for (const check of JSON.parse(readFileSync(join(folder, name, 'checks.json'), 'utf8'))) {
      count[check.status]++;
      if (check.status === 'SUCCESS') count.passed.push(check.id);
      if (!['SUCCESS', 'INFO'].includes(check.status)) count.why.push(`${scenario}: ${check.id}: ${check.status} ${check.errorMessage ?? ''}`);
    }
    results.set(scenario, count);
  }
  return results;
}
