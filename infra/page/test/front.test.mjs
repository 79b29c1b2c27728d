// What the local front does with a call on its way: large bodies, encodings.
import test from 'node:test';
import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import { createServer as createPlain } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { readFileSync } from 'node:fs';
import { Front } from '../front.mjs';
import { takesGzip } from '../encoding.mjs';

const LARGE = Buffer.alloc(7 * 1024 * 1024, 'x');
const REFUSAL = '{"message":"Request Entity Too Large"}';
const REFUSED = `HTTP/1.1 413 Payload Too Large\r\ncontent-type: application/json\r\ncontent-length: ${REFUSAL.length}\r\nconnection: close\r\n\r\n${REFUSAL}`;

/** Runs `work` with the front of an origin. */
async function before(origin, work) {
  await new Promise((done) => origin.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${origin.address().port}`;
  const front = await new Front(url, url).listen();
  try {
    await work(front);
  } finally {
    front.close();
    origin.closeAllConnections?.();
    origin.close();
  }
}

/** An origin that answers 413 once it has taken so much of a call, and closes. */
function refusing(after) {
  return createPlain((socket) => {
    let taken = 0;
    socket.on('error', () => {}).on('data', (chunk) => {
      if (taken === 0 && after > 0 && /^expect: 100-continue/im.test(chunk)) socket.write('HTTP/1.1 100 Continue\r\n\r\n');
      taken += chunk.length;
      if (taken > after) {
        socket.pause();
        socket.write(REFUSED, () => socket.resetAndDestroy());
      }
    });
  });
}

/** A call as a program makes it that asks before it sends a large body. */
function post(url, headers) {
  return new Promise((done, failed) => {
    const call = request(`${url}/v1/admin/sales`, { method: 'POST', headers: { 'content-length': LARGE.length, ...headers } });
    call.on('error', failed).on('response', async (response) => {
      const chunks = [];
      for await (const chunk of response) chunks.push(chunk);
      done({ status: response.statusCode, body: Buffer.concat(chunks).toString() });
    });
    if (headers.expect) call.on('continue', () => call.end(LARGE)).flushHeaders();
    else call.end(LARGE);
  });
}

test('an answer that comes before a large body is sent is passed on', async () => {
  for (const after of [0, 200_000]) {
    await before(refusing(after), async (front) => {
      for (const headers of [{}, { expect: '100-continue' }]) {
        assert.deepEqual(await post(front.url, headers), { status: 413, body: REFUSAL }, `after ${after}`);
      }
    });
  }
});

test('a large body reaches an origin that takes it', async () => {
  const origin = createServer(async (call, answer) => {
    let taken = 0;
    for await (const chunk of call) taken += chunk.length;
    answer.end(String(taken));
  });
  await before(origin, async (front) => {
    for (const headers of [{}, { expect: '100-continue' }]) {
      assert.deepEqual(await post(front.url, headers), { status: 200, body: String(LARGE.length) });
    }
  });
});

test('an origin that is away is 502', async () => {
  const away = createPlain((socket) => socket.destroy());
  await before(away, async (front) => assert.equal((await post(front.url, {})).status, 502));
});

test('gzip is for who takes it', () => {
  for (const header of ['gzip', 'GZIP', 'br, gzip;q=0.5', 'gzip ; q=1', '*', 'identity;q=0, *;q=0.1']) {
    assert.equal(takesGzip(header), true, header);
  }
  for (const header of [undefined, '', 'identity', 'br', 'gzip;q=0', 'gzip; q=0.000, *', '*;q=0', 'br;q=1, gzip;q=x']) {
    assert.equal(takesGzip(header), false, `${header}`);
  }
});

test('a file is the same either way', async () => {
  const file = readFileSync(new URL('../site/app.js', import.meta.url));
  const get = (url, encoding) => new Promise((done) => {
    request(`${url}/app.js`, { headers: encoding ? { 'accept-encoding': encoding } : {} }, async (response) => {
      const chunks = [];
      for await (const chunk of response) chunks.push(chunk);
      done([response.headers, Buffer.concat(chunks)]);
    }).end();
  });
  await before(createServer(), async (front) => {
    const [packed, small] = await get(front.url, 'gzip, br');
    assert.equal(packed['content-encoding'], 'gzip');
    assert.deepEqual(gunzipSync(small), file);
    for (const encoding of [undefined, 'gzip;q=0']) {
      const [plain, whole] = await get(front.url, encoding);
      assert.equal(plain['content-encoding'], undefined);
      assert.equal(plain.vary, 'accept-encoding');
      assert.deepEqual(whole, file);
    }
  });
});
