// The local system, and what a merchant and a crowd do in it.
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';

export const EDGE_KEY = 'edge-key-for-tests-0123456789abcdef';
export const PAGE_ORIGIN = 'https://shop.example';

export async function startSystem(program, more = []) {
  const port = await freePort();
  const child = spawn(program, ['up', '--port', String(port), '--secret', `EdgeKey=${EDGE_KEY}`, '--parameter', `AllowedOrigin=${PAGE_ORIGIN}`, ...more],
    { stdio: ['ignore', 'pipe', 'inherit'] });
  const said = await new Promise((done, fail) => {
    let text = '';
    child.once('exit', (code) => fail(new Error(`the local system ended with ${code}`)));
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
      if (text.includes('Ctrl-C ends')) done(text);
    });
  });
  const where = (name) => new RegExp(`${name} +(\\S+)`).exec(said)[1];
  return new System(child, `http://127.0.0.1:${port}`, where('DynamoDB'), where('edge store'));
}

class System {
  constructor(child, url, database, store) {
    Object.assign(this, { child, url, database, store });
  }

  async token(request) {
    const response = await fetch(`${this.url}/_dev/token`, { method: 'POST', body: JSON.stringify(request) });
    return (await response.json()).access_token;
  }

  /** Repeats a 503, as every client does: the machine may be busy. */
  async call(token, method, path, { body, headers = {} } = {}, attempt = 1) {
    const response = await fetch(this.url + path, {
      method, headers: { authorization: `Bearer ${token}`, ...headers }, body: body && JSON.stringify(body),
    });
    const answer = await response.json();
    if (response.status === 503 && attempt < 30) {
      await new Promise((done) => setTimeout(done, 1_000));
      return this.call(token, method, path, { body, headers }, attempt + 1);
    }
    if (response.status >= 400) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
    return answer;
  }

  /** The secret of a draw, straight from the table. */
  async secret(sale) {
    const ask = (target, body) => fetch(this.database, {
      method: 'POST', body: JSON.stringify(body),
      headers: {
        'content-type': 'application/x-amz-json-1.0', 'x-amz-target': `DynamoDB_20120810.${target}`,
        authorization: 'AWS4-HMAC-SHA256 Credential=test/20270101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0',
        'x-amz-date': '20270101T000000Z',
      },
    }).then((response) => response.json());
    const { TableNames: [TableName] } = await ask('ListTables', {});
    const { Item } = await ask('GetItem', { TableName, Key: { pk: { S: `S#${sale}` }, sk: { S: 'SECRET' } } });
    return Item.secret.S;
  }

  async stop() {
    this.child.removeAllListeners('exit');
    const ended = new Promise((done) => this.child.once('exit', done));
    this.child.kill('SIGINT');
    await ended;
  }
}

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}
