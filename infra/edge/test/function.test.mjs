import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { COUNTED, KEY, OPENS_MS, SALE, code, document, drawn, entryToken, find, pass, send } from './world.mjs';

const FORWARDED = { forwarded: true };
const vectors = JSON.parse(readFileSync(new URL('../vectors.json', import.meta.url), 'utf8'));
const ID = find(({ lot, ticket }) => lot % 500 !== 0 && ticket > 0.5);
const COUNTED_ID = find(({ lot }) => lot % 500 === 0);
const WINNER = find(({ lot, ticket }) => lot % 500 !== 0 && ticket < COUNTED.threshold);
const counted = (changes) => document({ ...COUNTED, ...changes });
const receipt = (id) => `edge.${code(KEY, 'entry', SALE, id, 'u_42')}`;
const claiming = (id, more = {}) => ({ 'idempotency-key': 'first-try', 'sale-pass': pass(id), 'sale-entry': receipt(id), ...more });

function isProblem(answer, status, error) {
  assert.equal(answer.status, status, JSON.stringify(answer));
  assert.equal(answer.json.error, error);
  assert.equal(answer.headers['content-type'], 'application/problem+json');
  assert.equal(answer.headers['cache-control'], 'no-store');
}

test('what is not a shopper\'s call of a known sale is forwarded as it is', async () => {
  for (const [action, options] of [
    ['entries', { sale: null }], ['entries', { sale: '{' }], ['entries', { sale: '{"v":2}' }], ['entries', { id: 'other' }],
    ['entries', { method: 'GET' }], ['entries', { method: 'OPTIONS' }], ['status', {}],
    ['', { uri: '/v1/admin/sales' }], ['', { uri: '/v1/sales/fs1111/entries/x' }], ['', { uri: '/%' }],
  ]) assert.deepEqual(await send(action, {}, options), FORWARDED, JSON.stringify([action, options]));
});

test('a path that is written otherwise is the same path', async () => {
  isProblem(await send('', {}, { uri: '/v1/sales/%66s1111/%65ntries' }), 401, 'invalid_pass');
});

test('before the opening and after the end nothing passes, whatever is sent', async () => {
  for (const action of ['entries', 'waitlist', 'claims']) {
    const early = await send(action, { 'idempotency-key': 'first-try', 'sale-pass': pass(ID) }, { ms: -1 });
    isProblem(early, 425, 'not_open');
    assert.equal(early.json.opens_at, '2027-11-11T12:00:00.000+05:30');
  }
  assert.deepEqual(await send('passes', {}, { ms: -1 }), FORWARDED);
  for (const action of ['entries', 'waitlist', 'claims', 'passes']) {
    const headers = { 'idempotency-key': 'first-try' };
    isProblem(await send(action, headers, { ms: 3_600_000 }), 410, 'ended');
    isProblem(await send(action, headers, { sale: document({ ended: true }) }), 410, 'ended');
  }
  // Ended before it opened: the origin looks at the two in another order for claims.
  const cancelled = { sale: document({ ended: true }), ms: -1 };
  isProblem(await send('entries', {}, cancelled), 410, 'ended');
  isProblem(await send('claims', { 'idempotency-key': 'first-try' }, cancelled), 425, 'not_open');
});

test('forged and odd passes are one and the same 401', async () => {
  const good = pass(ID);
  const [head, , signature] = good.split('.');
  const odd = {
    'another key': pass(ID, { key: 'another-key-0123456789abcdef01234567' }),
    'another sale': pass(ID, { sale: 'fs2222' }),
    'another shopper': pass(ID, { changes: { sub: 'u_43' } }),
    'another pass': pass(ID, { changes: { jti: WINNER } }),
    'a longer life': pass(ID, { changes: { exp: OPENS_MS / 1_000 + 7_200 } }),
    'another issuer': pass(ID, { changes: { iss: 'x' } }),
    'no code': pass(ID, { changes: { mac: undefined } }),
    'a part of the code': pass(ID, { changes: { mac: code(KEY, SALE, ID).slice(0, 8) } }),
    'a code that is no text': pass(ID, { changes: { mac: 1 } }),
    'an id that is no text': pass(ID, { changes: { jti: [ID] } }),
    'no claims': `${head}.e30.${signature}`,
    'null': `${head}.bnVsbA.${signature}`,
    'no JSON': `${head}.YWJj.${signature}`,
    'no base64': `${head}.!!.${signature}`,
    'two parts': `${head}.e30`,
    'text': 'x',
    'too long': good + 's'.repeat(4_096),
    'twice': [good, good],
    'a receipt': receipt(ID),
  };
  const bodies = new Set();
  for (const [what, token] of Object.entries(odd)) {
    const answer = await send('entries', { 'sale-pass': token });
    isProblem(answer, 401, 'invalid_pass');
    assert.equal(answer.json.detail, undefined, what);
    bodies.add(answer.body);
  }
  assert.equal(bodies.size, 1);
  assert.equal((await send('entries', {})).json.detail, 'The header Sale-Pass is required.');
  assert.equal((await send('entries', { 'sale-pass': good })).status, 201);
});

test('a pass is valid by the second, from nbf to exp', async () => {
  const late = document({ closes_ms: OPENS_MS + 9e9 });
  assert.deepEqual(await send('waitlist', { 'sale-pass': pass(ID) }, { sale: late, ms: 3_599_999 }), FORWARDED);
  isProblem(await send('waitlist', { 'sale-pass': pass(ID) }, { sale: late, ms: 3_600_000 }), 401, 'invalid_pass');
  const early = document({ opens_ms: OPENS_MS - 5_000 });
  isProblem(await send('waitlist', { 'sale-pass': pass(ID) }, { sale: early, ms: -1 }), 401, 'invalid_pass');
});

test('while a key is changed both are good, and the first one signs', async () => {
  const both = document({ keys: ['the-next-edge-key-0123456789abcdef', KEY] });
  const answer = await send('entries', { 'sale-pass': pass(ID) }, { sale: both });
  assert.equal(answer.json.entry_token, `edge.${code(both.keys[0], 'entry', SALE, ID, 'u_42')}`);
  const claim = await send('claims', claiming(ID), { sale: { ...counted(), keys: both.keys } });
  isProblem(claim, 403, 'not_admitted');
});

test('a tap in the window is answered with its ticket and a receipt', async () => {
  const answer = await send('entries', { 'sale-pass': pass(ID) });
  assert.equal(answer.status, 201);
  assert.equal(answer.headers['content-type'], 'application/json');
  assert.deepEqual(answer.json, { ticket: drawn(ID).ticket, position: null, entry_token: receipt(ID), sale_id: SALE });
  const again = await send('entries', { 'sale-pass': pass(ID), 'sale-entry': 'whatever' }, { ms: 1_999 });
  assert.equal(again.body, answer.body);
});

test('a document is believed until it ends, and everything is forwarded after that', async () => {
  const until = document({ fresh_until_ms: OPENS_MS + 1_000 });
  assert.equal((await send('entries', { 'sale-pass': pass(ID) }, { sale: until, ms: 999 })).status, 201);
  const calls = [['entries', { 'sale-pass': pass(ID) }], ['entries', {}], ['claims', claiming(ID)], ['waitlist', {}]];
  for (const [action, headers] of calls) {
    assert.deepEqual(await send(action, headers, { sale: until, ms: 1_000 }), FORWARDED);
    // Until when is not said, or not as a number.
    for (const fresh_until_ms of [undefined, null, 'x']) {
      assert.deepEqual(await send(action, headers, { sale: document({ fresh_until_ms }) }), FORWARDED);
    }
  }
});

test('one in k is to be counted, by a lot that nobody can choose: it has its ticket, and comes again', async () => {
  const answer = await send('entries', { 'sale-pass': pass(COUNTED_ID) });
  assert.deepEqual(answer.json, { ticket: drawn(COUNTED_ID).ticket, position: null, entry_token: receipt(COUNTED_ID), sale_id: SALE, counted: false });
  for (const ms of [0, 1_999, 2_000, 4_999]) {
    assert.deepEqual(await send('entries', { 'sale-pass': pass(COUNTED_ID), 'sale-entry': answer.json.entry_token }, { ms }), FORWARDED);
  }
  const everyone = document({ sample: 1 });
  assert.deepEqual(await send('entries', { 'sale-pass': pass(ID) }, { sale: everyone }), FORWARDED);
  // No sample, or one that is no number, hides nobody from the count.
  for (const sample of [undefined, 0, 'x']) {
    assert.deepEqual(await send('entries', { 'sale-pass': pass(ID) }, { sale: document({ sample }) }), FORWARDED);
  }
});

test('the sample is one in k, and says nothing of the ticket', () => {
  const k = 20;
  const sampled = [];
  const entries = 40_000;
  for (let n = 0; n < entries; n += 1) {
    const { ticket, lot } = drawn(n.toString(16).padStart(32, '0'));
    if (lot % k === 0) sampled.push(ticket);
  }
  // Four standard errors of a sample of 2,000: 9 %, and 2.7 % for a tenth of it.
  assert.ok(Math.abs(sampled.length * k / entries - 1) < 0.09, `${sampled.length}`);
  for (let tenth = 0; tenth < 10; tenth += 1) {
    const share = sampled.filter((ticket) => Math.floor(ticket * 10) === tenth).length / sampled.length;
    assert.ok(Math.abs(share - 0.1) < 0.027, `${tenth}: ${share}`);
  }
});

test('what needs the origin reaches it: late taps, races, waitlists, no secret yet', async () => {
  const headers = { 'sale-pass': pass(ID) };
  assert.deepEqual(await send('entries', headers, { ms: 2_000 }), FORWARDED);
  assert.deepEqual(await send('entries', { ...headers, 'sale-entry': receipt(ID) }, { ms: 2_000 }), FORWARDED);
  assert.deepEqual(await send('entries', headers, { sale: document({ mode: 'race' }) }), FORWARDED);
  assert.deepEqual(await send('entries', headers, { sale: document({ secret: null }) }), FORWARDED);
  assert.deepEqual(await send('waitlist', headers), FORWARDED);
});

test('a pause holds entries for a second and claims for five', async () => {
  const sale = document({ paused: true });
  const entry = await send('entries', { 'sale-pass': pass(ID) }, { sale });
  isProblem(entry, 503, 'paused');
  assert.equal(entry.headers['retry-after'], '1');
  const claim = await send('claims', claiming(WINNER), { sale });
  isProblem(claim, 503, 'paused');
  assert.equal(claim.headers['retry-after'], '5');
  assert.deepEqual(await send('waitlist', { 'sale-pass': pass(ID) }, { sale }), FORWARDED);
});

test('a claim needs one key of the origin\'s form', async () => {
  for (const key of ['short', 'has a space', 'has,comma', 'x'.repeat(129), 'ünïcode-key', ['first-try', 'first-try']]) {
    const answer = await send('claims', claiming(WINNER, { 'idempotency-key': key }), { sale: counted() });
    isProblem(answer, 400, 'invalid_idempotency_key');
    assert.match(answer.json.detail, /^Idempotency-Key must be 8 to 128/);
  }
  const without = claiming(WINNER);
  delete without['idempotency-key'];
  assert.equal((await send('claims', without)).json.detail, 'Idempotency-Key is required');
  for (const key of ['x'.repeat(8), 'x'.repeat(128), '!"#$%&\'()*+-./:;<=>?@[\\]^_`{|}~']) {
    assert.deepEqual(await send('claims', claiming(WINNER, { 'idempotency-key': key }), { sale: counted() }), FORWARDED);
  }
});

test('who is admitted reaches the origin, and who is not hears it here', async () => {
  const sale = counted();
  assert.deepEqual(await send('claims', claiming(WINNER), { sale }), FORWARDED);
  const answer = await send('claims', claiming(ID), { sale });
  isProblem(answer, 403, 'not_admitted');
  const { ticket } = drawn(ID);
  assert.deepEqual([answer.json.ticket, answer.json.threshold, answer.json.position],
    [ticket, COUNTED.threshold, Math.floor(ticket * 3_600_000) + 1]);
  // Before the count nobody has a place.
  assert.equal((await send('claims', claiming(ID))).json.position, undefined);
});

test('who was admitted hears of a claim from the origin, also while the sale is stopped', async () => {
  for (const [status, error, changes] of [[503, 'paused', { paused: true }], [410, 'ended', { ended: true }]]) {
    const sale = counted(changes);
    assert.deepEqual(await send('claims', claiming(WINNER), { sale }), FORWARDED);
    isProblem(await send('claims', claiming(ID), { sale }), status, error);
    isProblem(await send('claims', claiming(WINNER, { 'sale-entry': 'x' }), { sale }), status, error);
    // In a race nobody is told apart before there is a line.
    const race = claiming(WINNER);
    delete race['sale-entry'];
    isProblem(await send('claims', race, { sale: { ...sale, mode: 'race' } }), status, error);
  }
});

test('the origin\'s own tokens are compared as they stand', async () => {
  const sale = counted();
  const with_ = (token) => claiming(ID, { 'sale-entry': token });
  isProblem(await send('claims', with_(entryToken(ID, 0.5)), { sale }), 403, 'not_admitted');
  isProblem(await send('claims', with_(entryToken(ID, 1 + 99 / 3_600_000)), { sale }), 403, 'not_admitted');
  // A lie reaches the origin, which looks at the signature.
  assert.deepEqual(await send('claims', with_(entryToken(ID, 0.000001)), { sale }), FORWARDED);
  for (const token of [
    'x', '', `edge.${code(KEY, 'entry', SALE, WINNER, 'u_42')}`, 'edge.', receipt(ID).slice(0, -1), [receipt(ID), receipt(ID)],
    entryToken(WINNER, 0.5), entryToken(ID, 0.5, { sub: 'u_43' }), entryToken(ID, 0.5, { aud: 'fs2222' }),
    entryToken(ID, 0.5, { iss: 'x' }), entryToken(ID, 0.5, { exp: OPENS_MS / 1_000 + 1 }), entryToken(ID, '0.5'), pass(ID),
  ]) isProblem(await send('claims', with_(token), { sale }), 401, 'invalid_entry');
  const without = claiming(ID);
  delete without['sale-entry'];
  assert.equal((await send('claims', without, { sale })).json.detail, 'The header Sale-Entry is required.');
});

test('switched off, those in line hear "sold out" and their place', async () => {
  for (const turned of [{ sold_out: true }, { waitlist_only: true }]) {
    const sale = counted(turned);
    const answer = await send('claims', claiming(ID), { sale });
    isProblem(answer, 409, 'sold_out');
    assert.equal(answer.json.waitlist_position, Math.floor(drawn(ID).ticket * 3_600_000) + 1 - 10_000);
    // Who was admitted may hold a unit, and is told by the origin.
    assert.deepEqual(await send('claims', claiming(WINNER), { sale }), FORWARDED);
    assert.equal((await send('claims', claiming(ID), { sale: document(turned) })).json.waitlist_position, null);
  }
});

test('a race is the origin\'s until it has a line, and then for those outside of it', async () => {
  const race = (changes) => document({ mode: 'race', draw_closes_ms: OPENS_MS, scale: 10_000, ...changes });
  const late = claiming(ID, { 'sale-entry': entryToken(ID, 1.5) });
  const without = claiming(ID);
  delete without['sale-entry'];
  assert.deepEqual(await send('claims', without, { sale: race() }), FORWARDED);
  assert.deepEqual(await send('claims', late, { sale: race() }), FORWARDED);
  assert.deepEqual(await send('claims', late, { sale: race({ sold_out: true }) }), FORWARDED);
  const answer = await send('claims', late, { sale: race({ waitlist_open: true, threshold: 1.2 }) });
  isProblem(answer, 403, 'not_admitted');
  assert.equal(answer.json.position, 5_001);
});

test('only the page\'s origin may read the answers', async () => {
  const asked = (origin, sale) => send('entries', origin ? { origin } : {}, { sale });
  const shop = await asked('https://shop.example', document());
  assert.equal(shop.headers['access-control-allow-origin'], 'https://shop.example');
  assert.equal(shop.headers['access-control-expose-headers'], 'retry-after');
  for (const [origin, sale] of [['https://evil.example', document()], [undefined, document()], ['https://shop.example', document({ origin: null })]]) {
    assert.equal((await asked(origin, sale)).headers['access-control-allow-origin'], undefined);
  }
});

// What the origin's tests check too, with its own code.
test('codes, receipts and tickets are those of the vectors', async () => {
  for (const { key, sale, pass_id, shopper, nbf, exp, code: expected, receipt: proof } of vectors.codes) {
    assert.equal(code(key, sale, pass_id, shopper, nbf, exp), expected);
    assert.equal(`edge.${code(key, 'entry', sale, pass_id, shopper)}`, proof);
  }
  for (const { secret, pass_id, ticket, lot } of vectors.tickets) {
    assert.deepEqual(drawn(pass_id, secret), { ticket, lot });
    const sale = document({ secret, sample: 2 ** 32 });
    const answer = await send('entries', { 'sale-pass': pass(pass_id) }, { sale });
    assert.equal(answer.json.ticket, ticket);
  }
});

test('places and comparisons are those of the vectors', async () => {
  for (const { entries, scale, threshold, ticket, units, admitted, position, waitlist_position } of vectors.places) {
    const sale = document({ entries, scale, threshold, units });
    const headers = claiming(ID, { 'sale-entry': entryToken(ID, ticket) });
    const answer = await send('claims', headers, { sale });
    assert.equal(answer.forwarded === true, admitted);
    if (admitted) continue;
    assert.equal(answer.json.position ?? null, position);
    const out = await send('claims', headers, { sale: { ...sale, sold_out: true } });
    assert.equal(out.json.waitlist_position, waitlist_position);
  }
});

test('numbers are written as the origin writes them', async () => {
  for (const { value, text } of vectors.floats) {
    const headers = claiming(ID, { 'sale-entry': entryToken(ID, value) });
    const answer = await send('claims', headers, { sale: counted({ threshold: 0 }) });
    assert.ok(answer.body.includes(`"ticket":${text},`), `${answer.body} ${text}`);
  }
});
