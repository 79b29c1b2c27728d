import test from 'node:test';
import assert from 'node:assert/strict';
import { createPublicKey, verify } from 'node:crypto';
import { Passes } from '../shoppers.mjs';
import { chart } from '../chart.mjs';
import { KEY, OPENS_MS, SALE, document, drawn, send } from './world.mjs';

const from_s = OPENS_MS / 1_000;
const passes = new Passes({ sale: SALE, pass_keys: 'pass-key-for-tests-0123456789abcdef', edge_key: KEY, from_s, until_s: from_s + 3_600 });

test('passes of a crowd are good at the edge, signed or not, and only in their sale', async () => {
  for (const n of [0, 1, 9_999_999]) {
    for (const pass of [passes.signed(n), passes.unsigned(n)]) {
      const answer = await send('entries', { 'sale-pass': pass }, { sale: document({ sample: 2 ** 32 }) });
      assert.deepEqual([answer.status, answer.json.ticket, answer.json.entry_token], [201, drawn(passes.id(n)).ticket, passes.receipt(n)]);
    }
  }
  const elsewhere = new Passes({ sale: 'other', pass_keys: 'x'.repeat(32), edge_key: KEY, from_s, until_s: from_s + 3_600 });
  assert.equal((await send('entries', { 'sale-pass': elsewhere.signed(0) })).status, 401);
});

// As in the tests of shared/token.
test('keys are derived as the origin does', () => {
  assert.deepEqual([passes.kid, passes.public.x], ['knjZTpQF7LyPKcKg', 'Ua9NwMw3mJn4hyhBudlrMQVamNBpIcNaBVUToG4cBRg']);
  const [head, body, signature] = passes.signed(3).split('.');
  const data = Buffer.from(`${head}.${body}`);
  const key = createPublicKey({ key: passes.public, format: 'jwk' });
  const good = (bytes) => verify('sha256', bytes, { key, dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url'));
  assert.equal(good(data), true);
  assert.equal(good(Buffer.from(`${head}.x${body}`)), false);
});

test('the chart shows every crowd, and the line above or below it', () => {
  const few = chart([{ crowd: 10_000, entries: 5_000, claims: 10_000 }, { crowd: 1_000_000, entries: 4_990, claims: 11_020 }], 17_000);
  for (const text of ['15,000', '16,010', '1.2 × units + 5,000', '1 M']) assert.ok(few.includes(`>${text}<`), text);
  const [most] = /class="most"[^>]* y1="([\d.]+)"/.exec(few).slice(1).map(Number);
  const heights = (svg) => [...svg.matchAll(/<circle cx="[\d.]+" cy="([\d.]+)"/g)].map(([, y]) => Number(y));
  assert.ok(heights(few).every((y) => y > most));
  const many = chart([{ crowd: 10_000, entries: 15_000, claims: 10_000 }], 17_000);
  const [line] = /class="most"[^>]* y1="([\d.]+)"/.exec(many).slice(1).map(Number);
  assert.ok(heights(many).every((y) => y < line));
});
