// The same answers from njs, byte for byte but for the last digit of a fraction:
// njs does not always find the shortest text of a double, so numbers are compared.
import test from 'node:test';
import assert from 'node:assert/strict';
import { load, viewerRequest } from '../runtime.mjs';
import { hasNjs, njs } from '../njs.mjs';
import { COUNTED, KEY, OPENS_MS, SALE, code, document, drawn, entryToken, find, pass } from './world.mjs';

const ID = find(({ lot, ticket }) => lot % 500 !== 0 && ticket > 0.5);
const headers = (more) => ({ 'idempotency-key': 'first-try', 'sale-pass': pass(ID), origin: 'https://shop.example', ...more });
const receipt = (id) => `edge.${code(KEY, 'entry', SALE, id, 'u_42')}`;

function cases() {
  const made = [];
  const add = (action, sent, sale, ms = 1_000) => made.push({
    event: viewerRequest('POST', `/v1/sales/${SALE}/${action}`, sent), now: OPENS_MS + ms,
    store: sale ? { [`sale:${SALE}`]: JSON.stringify(sale) } : {},
  });
  add('entries', headers(), null);
  for (const action of ['entries', 'claims', 'passes', 'waitlist']) {
    for (const ms of [-1, 0, 1_999, 2_000, 3_600_000]) {
      for (const sale of [document(), document(COUNTED), document({ paused: true }), document({ mode: 'race' })]) {
        add(action, headers(), sale, ms);
        add(action, headers({ 'sale-entry': receipt(ID) }), sale, ms);
        add(action, {}, sale, ms);
      }
    }
  }
  for (const changes of [{ sold_out: true }, { waitlist_only: true }, { secret: null }, { keys: ['x'.repeat(32), KEY] }]) {
    add('claims', headers({ 'sale-entry': receipt(ID) }), document({ ...COUNTED, ...changes }));
  }
  for (const sent of ['x', 'a.b.c', 'a.e30.c', `${pass(ID)}x`, ['a', 'b'], pass(ID, { changes: { mac: 1 } }), pass(ID, { sub: 'mañana|आ 📱' })]) {
    add('entries', { 'sale-pass': sent }, document());
  }
  for (let n = 0; n < 200; n += 1) {
    const id = n.toString(16).padStart(32, '0');
    add('entries', { 'sale-pass': pass(id) }, document());
    add('claims', headers({ 'sale-entry': entryToken(ID, drawn(id).ticket * 2) }), document(COUNTED));
  }
  return made;
}

function shortest(answer) {
  return answer && { ...answer, body: answer.body.replace(/[0-9]\.[0-9e-]+/g, (number) => String(Number(number))) };
}

test('njs answers as Node does', { skip: hasNjs ? false : 'njs is not installed' }, async (t) => {
  const all = cases();
  const theirs = njs(all, `
    async function run() {
      const answers = [];
      for (let i = 0; i < cases.length; i++) {
        world.store = cases[i].store;
        world.now = cases[i].now;
        const answer = await handler(cases[i].event);
        answers.push(answer === cases[i].event.request ? null : answer);
      }
      done(answers);
    }
    run();`);
  let current;
  const handler = load({ read: (key) => current.store[key], clock: () => current.now });
  let answered = 0;
  for (const [index, one] of all.entries()) {
    current = one;
    const answer = await handler(one.event);
    const ours = answer === one.event.request ? null : JSON.parse(JSON.stringify(answer));
    if (ours) answered += 1;
    assert.deepEqual(shortest(theirs[index]), shortest(ours), JSON.stringify(one.event.request));
  }
  t.diagnostic(`${all.length} requests, ${answered} of them answered at the edge`);
});
