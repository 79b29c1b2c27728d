// A whole sale in Chromium against the local system, with the edge function in
// front: `node infra/page/test/walk/walk.mjs [--program=…] [--screens=<folder>]`.
//
// Two phones whose dates are three minutes off enter, are admitted and claim; one
// pays, the other gives its unit back. Of two who wait it goes to the better ticket,
// who pays; the other one hears "sold out". Each state is looked at by axe-core.
// Exits with 1 if anything is not as it should be.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { launch } from './browser.mjs';
import { Compared } from './compared.mjs';
import { PAGE_ORIGIN, startSystem } from './system.mjs';

const option = (name, otherwise) => process.argv.find((one) => one.startsWith(`--${name}=`))?.split('=')[1] ?? otherwise;
const PROGRAM = option('program', 'target/debug/local');
const SCREENS = option('screens', null);
const OPENS_IN_S = Number(option('opens-in', '8'));
const WINDOW_MS = Number(option('window', '5000'));
const WEIGHT_MAX = 40 * 1_024;
const SKEW_MS = 3 * 60_000;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const CROWD = 20;
/** Passes among whose tickets those of the pages are chosen. */
const POOL = 60;

const begun = Date.now();
const say = (text) => console.log(`${((Date.now() - begun) / 1_000).toFixed(1).padStart(5)} s  ${text}`);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function accessible(tab, what) {
  await tab.run(`globalThis.axe || (0, eval)(${JSON.stringify(AXE)}), 0`);
  const violations = await tab.run(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ': ' + nodes.map((node) => node.html + ' ' + node.any.map((one) => one.message).join('; ')).join(' | ')))`);
  assert.deepEqual(violations, [], `axe-core: ${what}`);
}

let pictures = 0;
async function picture(tab, name) {
  await accessible(tab, name);
  pictures += 1;
  if (!SCREENS) return;
  mkdirSync(SCREENS, { recursive: true });
  writeFileSync(join(SCREENS, `${name}.png`), await tab.screenshot());
}

/** Shoppers with passes, by their tickets: who will win is known here alone. */
async function crowdOf(system, sale, secret, size = CROWD) {
  const shoppers = await Promise.all(Array.from({ length: size }, async (_, n) => {
    const sub = `shopper-${n}`;
    const token = await system.token({ sub });
    const { pass, pass_id } = await system.call(token, 'POST', `/v1/sales/${sale}/passes`, { body: { device: `d-${n}` } });
    const digest = createHmac('sha256', Buffer.from(secret, 'hex')).update(pass_id).digest();
    return { sub, token, pass, pass_id, ticket: Number(digest.readBigUInt64BE(0) >> 11n) / 2 ** 53 };
  }));
  return shoppers.sort((a, b) => a.ticket - b.ticket);
}

const system = await startSystem(PROGRAM);
const front = await new Compared(system.url, system.store).listen();
const browser = await launch();
try {
  say('the system, its front and Chromium are up');
  const merchant = await system.token({ sub: 'merchant', scope: 'sales.admin' });
  const id = `phone-${Date.now()}`;
  const soon = (in_s) => Math.ceil(Date.now() / 1_000 + in_s) * 1_000;
  let opens_ms = soon(3_600);
  const created = await system.call(merchant, 'POST', '/v1/admin/sales', { body: {
    sale_id: id, sku: 'PHONE-1', name: 'Nova 12 Phone', units: 2, price: { amount: 999_900, currency: 'INR' },
    opens_at: new Date(opens_ms).toISOString(), mode: 'draw', draw_window_ms: WINDOW_MS, pay_window_s: Number(option('pay-window', '240')), claim_spread_s: 2,
  } });
  const secret = await system.secret(id);
  // The first round is for two of them, a later one for the third alone.
  const pool = await crowdOf(system, id, secret, POOL);
  const [first, second, ...others] = pool;
  const last = others.pop();
  const loser = others.find(({ ticket }) => ticket > 0.42);
  const crowd = [first, second, loser, last, ...others.filter((one) => one !== loser).slice(0, CROWD - 4)];
  const page = (shopper) => `${front.url}/?sale=${id}&shopper=${shopper.sub}`;

  // Devices whose dates are three minutes fast and slow, over slow networks.
  const fast = await browser.device({ reduced: true, skew_ms: SKEW_MS, latency_ms: 300 });
  const slow = await browser.device({ reduced: true, width: 1180, height: 900, skew_ms: -SKEW_MS, latency_ms: 300, dark: true });
  const third = await browser.device({ width: 390, height: 844, reduced: true });
  const fourth = await browser.device({ width: 390, height: 844, reduced: true });
  const [a, b, c, d] = await Promise.all([fast.tab(page(first)), slow.tab(page(second)), third.tab(page(loser)), fourth.tab(page(last))]);
  await Promise.all([a, b, c, d].map((tab) => tab.until('early')));
  await Promise.all([a, b, c, d].map((tab) => tab.wait(async () => (await tab.text('hint')) === 'Your pass is ready.', 'a pass')));
  say('four pages wait for the opening');

  // F03: the countdown is the server's, whatever the device believes.
  const offBy = async (tab) => {
    const shown = await tab.run(`['days', 'hours', 'minutes', 'seconds'].map((one) => Number(document.getElementById(one).textContent))`);
    const left_s = ((shown[0] * 24 + shown[1]) * 60 + shown[2]) * 60 + shown[3];
    return left_s - (opens_ms - Date.now()) / 1_000;
  };
  for (const tab of [a, b, c, d]) {
    const off_s = await offBy(tab);
    assert.ok(off_s > -1 && off_s < 1.5, `the countdown is off by ${off_s} s`);
  }
  say('countdowns are right with dates 3 minutes fast and slow');
  assert.equal(await a.run(`document.getElementById('main').getAttribute('aria-disabled')`), 'true');
  await a.click('main');
  const weight = a.weight;
  await picture(a, '1-early');
  await picture(b, '1-early-wide-dark');
  const beyond = [a, b, c, d].flatMap((tab) => tab.requests).filter((url) => !url.startsWith(front.url));
  assert.deepEqual(beyond, [], 'nothing is asked of a third party');

  // The merchant moves the sale to now: the pages learn of it from the status.
  opens_ms = soon(OPENS_IN_S);
  await system.call(merchant, 'PATCH', `/v1/admin/sales/${id}`, { body: {
    opens_at: new Date(opens_ms).toISOString(), closes_at: new Date(opens_ms + 3_600_000).toISOString() } });
  await Promise.all([a, b, c, d].map((tab) => tab.run(`dispatchEvent(new Event('online'))`)));
  // Functions keep a sale for a second: a pass of before would be for another opening.
  await sleep(1_500);
  await Promise.all(crowd.map(async (one) => {
    one.pass = (await system.call(one.token, 'POST', `/v1/sales/${id}/passes`, { body: { device: 'd' } })).pass;
  }));

  // The button is live by the server's clock; one of them is tapped by keyboard.
  const live = (tab) => tab.wait(() => tab.run(`document.getElementById('main').getAttribute('aria-disabled') === 'false'`), 'a live button');
  await Promise.all([a, b, c, d].map(live));
  const late_ms = Date.now() - opens_ms;
  assert.ok(late_ms > -1_000, `live ${-late_ms} ms before the opening`);
  say(`buttons are live ${late_ms} ms after the opening`);
  await b.run(`document.getElementById('language').focus()`);
  await b.key('Tab');
  await b.key('Enter');
  await a.click('main');
  await Promise.all(crowd.filter((one) => ![first, second, loser, last].includes(one)).map((one) =>
    system.call(one.token, 'POST', `/v1/sales/${id}/entries`, { headers: { 'sale-pass': one.pass } })));
  await picture(c, '2-open');
  await c.click('main');
  await d.click('main');
  await Promise.all([a, b, c, d].map((tab) => tab.wait(async () => ['drawing', 'admitted', 'waiting', 'waitlist', 'confirming', 'hold'].includes(await tab.phase()), 'an entry')));
  say('all four have entered');
  if (await c.phase() === 'drawing') await picture(c, '3-drawing');

  // A reload and a second tab.
  await a.reload();
  const again = await fast.tab(page(first));
  await Promise.all([a, b, again].map((tab) => tab.until('hold')));
  assert.equal(await a.text('commitment'), created.commitment);
  assert.equal(await a.text('ticket'), String(first.ticket));
  say('two hold a unit, one of them in two tabs, after a reload');
  await Promise.all([c, d].map((tab) => tab.until('waitlist')));
  assert.match(await c.text('title'), /^Number \d+ on the waitlist$/);
  await Promise.all([picture(a, '4-hold'), picture(b, '4-hold-wide-dark'), picture(c, '5-waitlist')]);
  await c.click('main');
  await c.wait(async () => (await c.text('hint')) === 'We will tell you.', 'a subscription');
  await c.click('language');
  await picture(c, '5-waitlist-hi');
  await c.click('language');

  // Paid, in a tab of which another is open.
  await a.click('main');
  await Promise.all([a, again].map((tab) => tab.until('paid')));
  say('one has paid, and the other tab knows');
  await picture(a, '6-paid');

  // The other one gives the unit back: the page of whoever is next claims it.
  await b.click('second');
  await b.click('second');
  await b.until('lapsed');
  await picture(b, '6-given-back-wide-dark');
  await c.until('hold');
  await picture(c, '7-hold-from-the-waitlist');
  await c.click('main');
  await c.until('paid');
  say('one unit was given back; the next in line has paid for it');
  await d.until('sold_out');
  await picture(d, '8-sold-out');
  const report = await system.call(merchant, 'GET', `/v1/admin/sales/${id}/report`);
  assert.deepEqual([report.units, report.free, report.held, report.paying, report.paid], [2, 0, 0, 0, 2]);

  // After the sale anyone can recompute their ticket.
  await system.call(merchant, 'POST', `/v1/admin/sales/${id}/end`);
  await d.until('ended');
  // Else the browser's copy of the sale is good for a minute.
  await Promise.all([a, d].map((tab) => tab.send('Network.clearBrowserCache')));
  await Promise.all([a.reload(), d.reload()]);
  for (const tab of [a, d]) {
    await tab.wait(async () => /^The secret fits the fingerprint, and your ticket is the one it gives. You were number \d+ of \d+; the line was drawn at \d+.$/
      .test(await tab.text('check')), 'the check of the draw');
  }
  await d.run(`document.querySelector('.fair').open = true`);
  await picture(d, '9-ended-checked');
  say('the page has recomputed the ticket from the published secret');

  const shifts = await Promise.all([a, b, c, d].map((tab) => tab.run('shifts')));
  const shift = Math.max(...shifts);
  assert.ok(shift < 0.02, `the layouts have shifted by ${shifts}`);
  const errors = [a, b, c, d, again].flatMap((tab) => tab.errors);
  assert.deepEqual(errors, [], 'errors in the console');
  assert.ok(weight <= WEIGHT_MAX, `${weight} bytes`);
  say(`page and first calls: ${(weight / 1_024).toFixed(1)} KB transferred of ${WEIGHT_MAX / 1_024}; layout shift ${shift.toFixed(4)}; axe-core: no violations in ${pictures} states`);

  await compareWithOrigin(system, front, { merchant, crowd });
  await front.settled();
  say(`edge and origin: ${JSON.stringify(front.answered)}, ${front.differences.length} differences, ${front.behind} a moment behind`);
  assert.equal(front.differences.length, 0, front.differences.slice(0, 3).join('\n'));
} finally {
  await browser.close();
  front.close();
  await system.stop();
}

/** Every answer of the edge beside the origin's, on a sale of its own. */
async function compareWithOrigin(system, front, { merchant }) {
  const id = `edge-${Date.now()}`;
  const window_ms = WINDOW_MS;
  const opens_ms = Math.ceil(Date.now() / 1_000 + OPENS_IN_S / 2) * 1_000;
  await system.call(merchant, 'POST', '/v1/admin/sales', { body: {
    sale_id: id, sku: 'E', name: 'Edge', units: 3, price: { amount: 100, currency: 'INR' },
    opens_at: `${new Date(opens_ms).toISOString().slice(0, 19)}+00:00`, mode: 'draw', draw_window_ms: window_ms,
    // No second round while this looks at the first.
    claim_spread_s: 60,
  } });
  const secret = await system.secret(id);
  // Nobody is in the sample: every tap is the edge's.
  front.changed = (document) => ({ ...document, sample: 2 ** 32 });
  const crowd = await crowdOf(system, id, secret);
  const foreign = await crowdOf(system, (await system.call(merchant, 'POST', '/v1/admin/sales', { body: {
    sale_id: `${id}-b`, sku: 'E', name: 'Other', units: 3, price: { amount: 100, currency: 'INR' },
    opens_at: new Date(opens_ms).toISOString(), mode: 'draw' } })).sale_id, secret);
  const last = crowd.at(-1);
  const ask = async (action, { headers = {}, shopper = last, origin = PAGE_ORIGIN } = {}) => {
    const call = { method: 'POST', path: `/v1/sales/${id}/${action}`, headers: { authorization: `Bearer ${shopper.token}`, origin, ...headers } };
    const [edge, answer] = [await front.atEdge(call), await front.atOrigin(call)];
    assert.ok(edge, `the edge forwards ${action} ${JSON.stringify(headers)}; the origin: ${answer.status} ${answer.body}`);
    if (front.compare(call, edge, answer)) return answer;
    await sleep(1_000);
    return ask(action, { headers, shopper, origin });
  };
  // Until the publisher has told it of the sale the edge forwards everything.
  while (!(await fetch(`${system.store}/keys/${encodeURIComponent(`sale:${id}`)}`)).ok) await sleep(100);
  const key = { 'idempotency-key': 'first-try' };
  const odd = (pass) => [{}, { 'sale-pass': 'x' }, { 'sale-pass': `${pass.slice(0, -3)}` .replace(/^[^.]+\./, 'e30.') .replace(/\.[^.]+\./, '.e30.') },
    { 'sale-pass': foreign.at(-1).pass }];

  for (const action of ['entries', 'waitlist', 'claims']) {
    await ask(action, { headers: { ...key, 'sale-pass': last.pass } });
    await ask(action, { headers: key, origin: 'https://other.example' });
  }
  for (const headers of [{}, { 'idempotency-key': 'short' }, { 'idempotency-key': 'has,comma' }]) await ask('claims', { headers });
  await sleep(opens_ms + 300 - Date.now());
  for (const action of ['entries', 'waitlist', 'claims']) for (const headers of odd(last.pass)) await ask(action, { headers: { ...key, ...headers } });
  const tokens = new Map();
  for (const one of crowd) {
    const { body } = await ask('entries', { shopper: one, headers: { 'sale-pass': one.pass } });
    tokens.set(one, JSON.parse(body).entry_token);
  }
  const mine = { ...key, 'sale-pass': last.pass };
  await ask('claims', { headers: mine });
  await ask('claims', { headers: { ...mine, 'sale-entry': 'x' } });
  await ask('claims', { headers: { ...mine, 'sale-entry': tokens.get(crowd[0]) } });
  await ask('claims', { headers: { ...mine, 'sale-entry': tokens.get(last) } });
  await sleep(opens_ms + window_ms - Date.now());
  const isCounted = async () => (await system.call(merchant, 'GET', `/v1/admin/sales/${id}`)).draw.round > 0;
  while (!await isCounted()) await sleep(300);
  const turn = async (name, body) => {
    await system.call(merchant, 'POST', `/v1/admin/sales/${id}/${name}`, { body });
    // The publisher looks once a second, and functions read the sale at most a second ago.
    await sleep(2_500);
  };
  await sleep(2_500);
  for (const one of crowd.slice(6)) {
    await ask('claims', { shopper: one, headers: { ...key, 'sale-pass': one.pass, 'sale-entry': tokens.get(one) } });
  }
  await turn('force-sold-out', { on: true });
  await ask('claims', { headers: { ...mine, 'sale-entry': tokens.get(last) } });
  await turn('force-sold-out', { on: false });
  await turn('waitlist-only', { on: true });
  await ask('claims', { headers: { ...mine, 'sale-entry': tokens.get(last) } });
  await turn('pause');
  for (const action of ['entries', 'claims']) await ask(action, { headers: { ...mine, 'sale-entry': tokens.get(last) } });
  await turn('end');
  for (const action of ['entries', 'waitlist', 'claims']) await ask(action, { headers: mine });
}
