// How many requests of a crowd reach the origin: `node infra/edge/crowd.mjs
// [--program=target/debug/local] [--crowds=10000,100000] [--chart=docs/crowd.svg]`.
//
// For each crowd a sale of 10,000 units is held at a local origin. Every shopper
// taps too early, taps in the draw's window, and claims, whoever is admitted or not:
// three requests each and for one in k a fourth, of which each is decided by the edge
// function, with the sale's own document. What it forwards is sent to the origin,
// signed, and counted. Exits with 1 if more than 1.2 × units + 5,000 are.
//
// A crowd's edge lives in a time of its own, before the sale's real opening, since
// ten million decisions take longer than a window; those who are forwarded come in
// the real one, through the same function.
import { readFileSync, writeFileSync } from 'node:fs';
import { load, viewerRequest } from './runtime.mjs';
import { Passes } from './shoppers.mjs';
import { chart } from './chart.mjs';
import { Front } from '../page/front.mjs';
import { EDGE_KEY, startSystem } from '../page/test/walk/system.mjs';

const option = (name, otherwise) => process.argv.find((one) => one.startsWith(`--${name}=`))?.split('=')[1] ?? otherwise;
const PROGRAM = option('program', 'target/debug/local');
const CROWDS = option('crowds', '10000,30000,100000,300000,1000000').split(',').map(Number);
const CHART = option('chart', null);
const UNITS = Number(option('units', '10000'));
const WINDOW_MS = Number(option('window', '30000'));
const PASS_KEYS = 'pass-keys-of-the-crowd-0123456789abcdef';
const HOUR_MS = 3_600_000;
/** Requests on their way to the origin at the same time. */
const AT_ONCE = 48;
const REPEATED = new Set([429, 500, 503]);

export const mostAtOrigin = (units) => 1.2 * units + 5_000;

const begun = Date.now();
const say = (text) => console.log(`${((Date.now() - begun) / 1_000).toFixed(1).padStart(6)} s  ${text}`);
const sleep = (ms) => new Promise((done) => setTimeout(done, Math.max(ms, 0)));

/** One crowd's sale. */
class Crowd {
  /** Decisions of the edge, and what they were. */
  asked = 0;
  answered = {};
  /** Requests that reached the origin. */
  origin = { entries: 0, claims: 0 };
  #text = null;
  #now = 0;
  #edge = load({ read: () => this.#text, clock: () => this.#now });

  #tickets;

  constructor(system, front, size) {
    Object.assign(this, { system, front, size, id: `crowd-${size}-${Date.now()}` });
    this.#tickets = new Float64Array(size);
  }

  async open() {
    this.merchant = await this.system.token({ sub: 'merchant', scope: 'sales.admin' });
    await this.#admin('POST', '', { sale_id: this.id, sku: 'C', name: 'Crowd', units: UNITS, price: { amount: 999_900, currency: 'INR' },
      opens_at: new Date(Date.now() + HOUR_MS - 60_000).toISOString(), mode: 'draw', draw_window_ms: WINDOW_MS, expected_entries: this.size,
      // All who are admitted claim as fast as this machine can; a slow one is no reason to ask others.
      claim_spread_s: 60,
      // Nobody pays here, and nothing comes back while it is counted.
      pay_window_s: 80_000, waitlist_pay_window_s: 80_000 });
    const now_s = Math.floor(Date.now() / 1_000);
    this.passes = new Passes({ sale: this.id, pass_keys: PASS_KEYS, edge_key: EDGE_KEY, from_s: now_s - 60, until_s: now_s + 86_400 });
    const { keys } = await (await fetch(`${this.system.url}/.well-known/jwks.json`)).json();
    if (keys[0].kid !== this.passes.kid) throw new Error('the crowd has not the keys of the origin');
    this.secret = await this.system.secret(this.id);
  }

  /** The document as the publisher has written it. */
  async document() {
    for (;;) {
      const read = await fetch(`${this.system.store}/keys/${encodeURIComponent(`sale:${this.id}`)}`);
      if (read.ok) return JSON.parse((await read.json()).Value);
      await sleep(300);
    }
  }

  /** One decision: null if the request is forwarded. */
  async #decide(action, headers) {
    const event = viewerRequest('POST', `/v1/sales/${this.id}/${action}`, headers);
    const answer = await this.#edge(event);
    this.asked += 1;
    const forwarded = answer === event.request;
    const what = forwarded ? 'forwarded' : answer.statusCode;
    this.answered[`${action} ${what}`] = (this.answered[`${action} ${what}`] ?? 0) + 1;
    return forwarded ? null : answer;
  }

  // A document holds for two minutes; here its time stands still.
  #knows(document, now) {
    this.#text = JSON.stringify({ ...document, fresh_until_ms: Number.MAX_SAFE_INTEGER });
    this.#now = now;
  }

  /** Everyone taps early and in the window; who is to be counted. */
  async taps() {
    // As it will be a minute before the opening.
    const document = { ...await this.document(), secret: this.secret };
    this.#knows(document, 0);
    const counted = [];
    for (let n = 0; n < this.size; n += 1) {
      const headers = { 'sale-pass': this.passes.unsigned(n), authorization: 'Bearer s' };
      this.#now = document.opens_ms - 1;
      if (!await this.#decide('entries', headers)) throw new Error('an early tap is forwarded');
      this.#now = document.opens_ms + 1;
      const answer = await this.#decide('entries', headers);
      if (!answer) throw new Error('the crowd is so small that each of its entries is counted');
      const { ticket, counted: isCounted, entry_token } = JSON.parse(answer.body);
      this.#tickets[n] = ticket;
      if (isCounted !== false) continue;
      if (await this.#decide('entries', { ...headers, 'sale-entry': entry_token })) throw new Error('who is to be counted is not forwarded');
      counted.push(n);
    }
    if (Date.now() > document.opens_ms - 120_000) throw new Error('the sale has opened meanwhile');
    return counted;
  }

  /** The opening is now: those who are counted come. */
  async count(counted) {
    const tokens = await this.#tokens(counted);
    const opens_ms = Math.ceil(Date.now() / 1_000 + 20) * 1_000;
    await this.#admin('PATCH', `/${this.id}`, { opens_at: new Date(opens_ms).toISOString(), closes_at: new Date(opens_ms + 20 * HOUR_MS).toISOString() });
    await sleep(opens_ms + 1_500 - Date.now());
    await this.#all(counted, (n, index) => this.#send('entries', tokens[index], {
      'sale-pass': this.passes.signed(n), 'sale-entry': this.passes.receipt(n),
    }));
    if (Date.now() > opens_ms + WINDOW_MS) say('  the window was too short for this machine');
  }

  /**
   * Everyone claims; in each round that follows, those it may concern. As on pages,
   * who is admitted claims within seconds, and does not wait until ten million who
   * are not were told so.
   */
  async claims() {
    const statuses = {};
    let asking = Uint32Array.from({ length: this.size }, (_, n) => n);
    for (let threshold = 0; ;) {
      const document = await this.#drawn(threshold);
      if (document.threshold === threshold) break;
      threshold = document.threshold;
      this.#knows(document, document.draw_closes_ms + 10_000);
      const admitted = asking.filter((n) => this.#tickets[n] < threshold);
      for (const n of admitted) {
        if (await this.#claim(n)) throw new Error('who is admitted is not forwarded');
      }
      const tokens = await this.#tokens(admitted);
      const refused = [];
      await this.#all(admitted, async (n, index) => {
        const { status } = await this.#send('claims', tokens[index], this.#claiming(n, this.passes.signed(n)));
        statuses[status] = (statuses[status] ?? 0) + 1;
        if (status === 409) refused.push(n);
      });
      const others = asking.filter((n) => this.#tickets[n] >= threshold);
      for (const n of others) {
        if (!await this.#claim(n)) throw new Error('who is not admitted is forwarded');
      }
      const near = others.filter((n) => this.#tickets[n] < 2 * threshold);
      asking = Uint32Array.from([...near, ...refused]);
    }
    const { draw, state } = await this.#admin('GET', `/${this.id}`);
    say(`  claims at the origin: ${JSON.stringify(statuses)}; ${draw.entries} entries counted of ${this.size}, ${draw.admitted} admitted in ${draw.round} rounds; ${state}`);
    await this.#admin('POST', `/${this.id}/end`);
  }

  /** The document once a round has been opened, and had its time. */
  async #drawn(threshold) {
    await sleep(threshold === 0 ? 0 : 8_000);
    for (;;) {
      const document = await this.document();
      if (document.threshold > 0) return document;
      await sleep(500);
    }
  }

  #claim(n) {
    return this.#decide('claims', this.#claiming(n, this.passes.unsigned(n)));
  }

  #claiming(n, pass) {
    return { 'idempotency-key': 'first-try', 'sale-pass': pass, 'sale-entry': this.passes.receipt(n), authorization: 'Bearer s' };
  }

  async #send(action, token, headers) {
    for (let attempt = 1; ; attempt += 1) {
      const call = { method: 'POST', path: `/v1/sales/${this.id}/${action}`, headers: { ...headers, authorization: `Bearer ${token}` } };
      if (await this.front.atEdge(call)) throw new Error(`${action}: the edge answers what it has forwarded before`);
      this.origin[action] += 1;
      const answer = await this.front.atOrigin(call);
      if (!REPEATED.has(answer.status) || attempt === 20) return answer;
      await sleep(1_000 + Math.random() * 1_000);
    }
  }

  async #tokens(shoppers) {
    const tokens = [];
    for (let from = 0; from < shoppers.length; from += 500) {
      const subs = Array.from(shoppers.slice(from, from + 500), (n) => this.passes.shopper(n));
      const made = await fetch(`${this.system.url}/_dev/token`, { method: 'POST', body: JSON.stringify({ subs }) });
      tokens.push(...(await made.json()).access_tokens);
    }
    return tokens;
  }

  async #all(items, work) {
    let next = 0;
    await Promise.all(Array.from({ length: AT_ONCE }, async () => {
      while (next < items.length) {
        const index = next;
        next += 1;
        await work(items[index], index);
      }
    }));
  }

  #admin(method, rest, body) {
    return this.system.call(this.merchant, method, `/v1/admin/sales${rest}`, { body });
  }
}

const system = await startSystem(PROGRAM, ['--secret', `PassKeys=${PASS_KEYS}`]);
const front = new Front(system.url, system.store);
const results = [];
try {
  for (const size of CROWDS) {
    say(`${size.toLocaleString('en')} shoppers`);
    const crowd = new Crowd(system, front, size);
    await crowd.open();
    const counted = await crowd.taps();
    say(`  ${counted.length} are to be counted`);
    await crowd.count(counted);
    await crowd.claims();
    const { entries, claims } = crowd.origin;
    results.push({ crowd: size, edge: crowd.asked, entries, claims });
    say(`  ${crowd.asked.toLocaleString('en')} requests at the edge, ${JSON.stringify(crowd.answered)}`);
    say(`  ${(entries + claims).toLocaleString('en')} at the origin: ${entries} entries, ${claims} claims; at most ${mostAtOrigin(UNITS)}`);
  }
} finally {
  await system.stop();
}

if (CHART) {
  // Crowds of other runs stay.
  const file = CHART.replace(/\.svg$/, '.json');
  let before = [];
  try { before = JSON.parse(readFileSync(file, 'utf8')); } catch { /* the first */ }
  const kept = before.filter(({ crowd }) => !CROWDS.includes(crowd));
  const all = [...kept, ...results].sort((a, b) => a.crowd - b.crowd);
  writeFileSync(file, `[\n${all.map((one) => `  ${JSON.stringify(one)}`).join(',\n')}\n]\n`);
  writeFileSync(CHART, chart(all, mostAtOrigin(UNITS)));
}
process.exit(results.every(({ entries, claims }) => entries + claims <= mostAtOrigin(UNITS)) ? 0 : 1);
