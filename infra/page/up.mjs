// The whole on one machine behind one URL, until Ctrl-C: page and edge in front of
// the local system. `node infra/page/up.mjs target/debug/local 8080 [options of local up]`.
import { spawn } from 'node:child_process';
import { Front } from './front.mjs';

const [program, port, ...options] = process.argv.slice(2);
const url = `http://127.0.0.1:${port}`;
const child = spawn(program, ['up', '--port', '0', '--front', url, ...options], { stdio: ['ignore', 'pipe', 'inherit'] });
let front = null;
let said = '';

// A terminal's Ctrl-C reaches both.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { if (signal === 'SIGTERM') child.kill('SIGINT'); });
child.once('exit', (code) => {
  front?.close();
  process.exitCode = code ?? 1;
});
child.stdout.setEncoding('utf8').on('data', async (chunk) => {
  if (front) return process.stdout.write(chunk);
  said += chunk;
  const where = (name) => new RegExp(`^  ${name} +(\\S+)$`, 'm').exec(said)?.[1];
  if (!said.includes('Ctrl-C ends')) return undefined;
  front = new Front(where('gateway'), where('edge store'));
  // Only now is it true.
  return front.listen(Number(port)).then(() => process.stdout.write(said), (error) => {
    console.error(`${url}: ${error.message}`);
    child.kill('SIGINT');
  });
});
