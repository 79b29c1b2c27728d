// What stands in front of the origin in the cloud, for the tests: the page's
// files, compressed, and the edge function with the document of the sale, which
// is made here as the controller is to make it. Wherever the edge answers by
// itself, the origin is asked too, and the two answers are compared.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { gzipSync } from 'node:zlib';
import { load, viewerRequest } from '../../../edge/runtime.mjs';

const SITE = new URL('../../site/', import.meta.url);
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' };
// What the gateway adds to each answer, and what a connection is about.
const OWN = new Set(['apigw-requestid', 'date', 'content-length', 'connection', 'keep-alive', 'transfer-encoding', 'vary']);

export class Front {
  /** Differences between edge and origin. */
  differences = [];
  /** Answers of the edge, by their error or "ticket". */
  answered = {};
  /** What the sale object is to show beside what the origin shows. */
  reveal = null;
  #document = null;
  #edge = load({ read: (key) => (key === this.#document?.key ? this.#document.text : undefined), clock: () => Date.now() });

  constructor(origin) {
    this.origin = origin;
    this.server = createServer((request, response) => {
      this.#answer(request, response).catch((error) => {
        response.writeHead(502).end(String(error));
      });
    });
  }

  /** The document that the controller is to write, from the merchant's view of the sale. */
  publish(sale, { keys, secret, sample, origin = null }) {
    const opens_ms = Date.parse(sale.opens_at);
    const isDraw = sale.mode === 'draw';
    this.#document = {
      key: `sale:${sale.sale_id}`,
      text: JSON.stringify({
        v: 1, version: sale.version, mode: sale.mode, opens_at: sale.opens_at, opens_ms,
        draw_closes_ms: opens_ms + (isDraw ? sale.draw_window_ms : 0), closes_ms: Date.parse(sale.closes_at), units: sale.units,
        ended: sale.switches.ended, paused: sale.switches.paused, sold_out: sale.switches.force_sold_out,
        waitlist_only: sale.switches.waitlist_only, entries: sale.draw.entries, scale: sale.draw.scale, threshold: sale.draw.threshold,
        waitlist_open: sale.state === 'ALL_CLAIMED', sample, secret, keys, origin,
      }),
    };
  }

  async listen() {
    await new Promise((done) => this.server.listen(0, '127.0.0.1', done));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }

  async #answer(request, response) {
    const { pathname } = new URL(request.url, 'http://front');
    if (!pathname.startsWith('/v1/') && !pathname.startsWith('/_dev/') && !pathname.startsWith('/.well-known/')) {
      return this.#file(pathname, response);
    }
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const call = { method: request.method, path: request.url, headers: request.headers, body: Buffer.concat(chunks) };
    const edge = await this.atEdge(call);
    const origin = await this.atOrigin(call);
    if (edge) this.compare(call, edge, origin);
    const { status, headers, body } = edge ?? origin;
    const shown = this.reveal && request.method === 'GET' && /^\/v1\/sales\/[^/]+$/.test(pathname) && status === 200
      ? JSON.stringify({ ...JSON.parse(body), ...this.reveal })
      : body;
    response.writeHead(status, headers).end(shown);
  }

  /** The edge's own answer, or null if it forwards. */
  async atEdge({ method, path, headers }) {
    const event = viewerRequest(method, new URL(path, 'http://front').pathname, headers);
    const answer = await this.#edge(event);
    if (answer === event.request) return null;
    const flat = Object.fromEntries(Object.entries(answer.headers).map(([name, { value }]) => [name, value]));
    return { status: answer.statusCode, headers: flat, body: answer.body };
  }

  async atOrigin({ method, path, headers, body }) {
    const sent = Object.fromEntries(Object.entries(headers).filter(([name]) => !['host', 'connection', 'content-length', 'accept-encoding'].includes(name)));
    const answer = await fetch(this.origin + path, { method, headers: sent, body: body?.length ? body : undefined });
    const shown = Object.fromEntries([...answer.headers].filter(([name]) => !OWN.has(name)));
    return { status: answer.status, headers: shown, body: await answer.text() };
  }

  /**
   * Notes whether the two are the same, byte for byte. False if the origin could
   * not answer: the machine may be busy.
   */
  compare({ method, path }, edge, origin) {
    if (origin.status === 503 && origin.body.includes('"error":"unavailable"')) return false;
    const what = edge.status < 300 ? 'ticket' : JSON.parse(edge.body).error;
    this.answered[what] = (this.answered[what] ?? 0) + 1;
    const told = (answer) => JSON.stringify([answer.status, Object.entries(answer.headers).sort(), whatIsSaid(answer)]);
    if (told(edge) !== told(origin)) this.differences.push(`${method} ${path}\n  edge   ${told(edge)}\n  origin ${told(origin)}`);
    return true;
  }

  async #file(pathname, response) {
    const name = pathname === '/' ? 'index.html' : pathname.slice(1);
    const content = /^[a-z]+\.[a-z]+$/.test(name) && await readFile(new URL(name, SITE)).catch(() => null);
    if (!content) return response.writeHead(404).end();
    response.writeHead(200, { 'content-type': TYPES[extname(name)], 'content-encoding': 'gzip', 'cache-control': 'public, max-age=300' });
    return response.end(gzipSync(content));
  }
}

// The origin signs an entry token where the edge gives a receipt, and knows
// whether an entry is new: the one difference that there is.
function whatIsSaid({ status, body }) {
  return status < 300 ? body.replace(/"entry_token":"[^"]+"/, '"entry_token":"…"') : body;
}
