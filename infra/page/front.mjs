// What stands in front of the origin in the cloud, on one machine: the page's
// files, compressed for who takes that, and the edge function, which reads its
// documents from the local stand-in of the store that the publisher writes.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { gzipSync } from 'node:zlib';
import { load, viewerRequest } from '../edge/runtime.mjs';
import { takesGzip } from './encoding.mjs';
import { callOrigin } from './origin.mjs';

const SITE = new URL('./site/', import.meta.url);
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' };
const ORIGINS = /^\/(v1|_dev|\.well-known)\//;

export class Front {
  #store;
  #server;
  #edge;

  /** `origin` is the gateway, `store` the URL of the key-value store. */
  constructor(origin, store) {
    this.origin = origin;
    this.#store = store;
    this.#edge = load({ read: (key) => this.#read(key), clock: () => Date.now() });
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error) => {
        if (!response.headersSent) response.writeHead(502);
        response.end(String(error));
      });
    });
  }

  /** What a test changes of a document; nothing otherwise. */
  changed = (document) => document;

  async listen(port = 0) {
    await new Promise((done, failed) => this.#server.once('error', failed).listen(port, '127.0.0.1', done));
    this.url = `http://127.0.0.1:${this.#server.address().port}`;
    return this;
  }

  close() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #read(key) {
    const answer = await fetch(`${this.#store}/keys/${encodeURIComponent(key)}`);
    return answer.ok ? JSON.stringify(this.changed(JSON.parse((await answer.json()).Value))) : undefined;
  }

  async #answer(request, response) {
    const { pathname } = new URL(request.url, 'http://front');
    if (!ORIGINS.test(pathname)) return this.#file(pathname, request.headers['accept-encoding'], response);
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { status, headers, body } = await this.call({ method: request.method, path: request.url, headers: request.headers, body: Buffer.concat(chunks) });
    response.writeHead(status, headers).end(body);
  }

  /** The edge's answer, or else the origin's. */
  async call(call) {
    return await this.atEdge(call) ?? this.atOrigin(call);
  }

  /** The edge's own answer, or null if it forwards. */
  async atEdge({ method, path, headers }) {
    const event = viewerRequest(method, new URL(path, 'http://front').pathname, headers);
    const answer = await this.#edge(event);
    if (answer === event.request) return null;
    const flat = Object.fromEntries(Object.entries(answer.headers).map(([name, { value }]) => [name, value]));
    return { status: answer.statusCode, headers: flat, body: answer.body };
  }

  atOrigin({ path, ...call }) {
    return callOrigin(this.origin + path, call);
  }

  async #file(pathname, accepted, response) {
    const name = pathname === '/' ? 'index.html' : pathname.slice(1);
    const content = /^[a-z]+\.[a-z]+$/.test(name) && await readFile(new URL(name, SITE)).catch(() => null);
    if (!content) return response.writeHead(404).end();
    const headers = { 'content-type': TYPES[extname(name)], 'cache-control': 'public, max-age=300', vary: 'accept-encoding' };
    if (!takesGzip(accepted)) return response.writeHead(200, headers).end(content);
    return response.writeHead(200, { ...headers, 'content-encoding': 'gzip' }).end(gzipSync(content));
  }
}
