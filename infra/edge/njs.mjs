// Runs function.js in njs, the engine of CloudFront Functions' family, where it
// is installed (Debian: njs). Older than the cloud's, so it proves less than a
// deployment and more than Node alone.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const SOURCE = new URL('./function.js', import.meta.url);

export const hasNjs = spawnSync('njs', ['-v']).status === 0;

/**
 * Runs `driver`, which sees `handler`, `cases`, `world` (`store`, `now`) and
 * `clock`, and tells its result with `done`. Returns the result.
 */
export function njs(cases, driver) {
  const folder = mkdtempSync(join(tmpdir(), 'edge-'));
  try {
    writeFileSync(join(folder, 'cloudfront.js'), `
      const world = { store: {}, now: 0 };
      async function get(key) {
        if (world.store[key] === undefined) { throw new Error('KeyNotFound'); }
        return JSON.parse(world.store[key]);
      }
      export default { kvs: () => ({ get: get }), world: world };`);
    const source = readFileSync(SOURCE, 'utf8').replace("from 'cloudfront'", "from 'cloudfront.js'");
    writeFileSync(join(folder, 'main.js'), `${source}
      const world = cf.world;
      const cases = JSON.parse(${JSON.stringify(JSON.stringify(cases))});
      const clock = Date.now;
      Date.now = () => world.now;
      // A line of console.log ends after some thousand characters.
      function done(result) { require('fs').writeFileSync(${JSON.stringify(join(folder, 'result'))}, JSON.stringify(result)); }
      ${driver}`);
    execFileSync('njs', ['-p', folder, join(folder, 'main.js')], { stdio: 'inherit' });
    return JSON.parse(readFileSync(join(folder, 'result'), 'utf8'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
