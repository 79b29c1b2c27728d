// The shopper's way with a server that is played here, in time that is played
// too: no test waits.
import test from 'node:test';
import assert from 'node:assert/strict';
import { Api } from '../site/api.js';
import { ServerClock } from '../site/clock.js';
import { Memory } from '../site/memory.js';
import { Shopper } from '../site/shopper.js';

const OPENS = Date.parse('2027-11-11T12:00:00+05:30');
const iso = (ms) => new Date(ms).toISOString();

/** A server, a browser's storage and a time that is moved by hand. */
class World {
  now = OPENS - 10_000;
  #timers = [];
  #storage = new Map();
  calls = [];
  sale = { sale_id: 's', name: 'Phone', mode: 'draw', units: 2, claim_spread_s: 3, opens_at: iso(OPENS), draw_closes_at: iso(OPENS + 2_000), limit_per_customer: 1,
    price: { amount: 100, currency: 'INR', display: 'INR 1.00' } };
  status = { state: 'SCHEDULED', stock: 'AVAILABLE', opens_at: iso(OPENS), closes_at: iso(OPENS + 3_600_000), paused: false,
    waitlist_open: false, units: 2, free: 2, draw: { entries: 0, scale: 0, threshold: 0, round: 0, admitted: 0 } };
  answers = {
    passes: () => [201, { pass: 'p', pass_id: 'id' }],
    entries: () => [201, { ticket: 0.25, entry_token: 'e' }],
    claims: () => [201, this.claim('CLAIMED')],
    read: () => [200, this.claim('ORDERED')],
    payments: () => [201, { intent_id: 'i' }],
    waitlist: () => [201, { subscribed: true }],
  };

  claim(status) {
    return { claim_id: 'c1', status, pay_by: iso(OPENS + 600_000), order: { order_id: 'o1' } };
  }

  count(what) {
    return this.calls.filter(({ name }) => name === what).length;
  }

  tab(changes = {}) {
    const clock = new ServerClock(() => this.now - OPENS);
    const storage = { getItem: (key) => this.#storage.get(key) ?? null, setItem: (key, value) => this.#storage.set(key, value) };
    const fetch = async (path, { method, headers }) => {
      const name = method === 'DELETE' ? 'give_back' : path.startsWith('/v1/claims/') ? 'read' : path.split('/').at(-1);
      this.calls.push({ name, headers, at: this.now });
      const answer = name === 's' ? [200, this.sale]
        : name === 'status' ? [200, { ...this.status, server_time: iso(this.now) }]
          : this.answers[name](this.count(name));
      if (!answer) throw new TypeError('no way');
      const [status, body, retry] = answer;
      return { status, json: async () => { if (body === null) throw new SyntaxError('cut off'); return body; }, headers: new Headers(retry ? { 'retry-after': retry } : {}) };
    };
    return new Shopper({
      sale_id: 's', clock, api: new Api({ session: async () => 'token', tick: () => clock.tick(), fetch }),
      memory: new Memory(storage, 's', 'ada'), store: { pay: async () => 'confirmed' },
      random: () => 0.5, newKey: () => 'key-0001',
      timers: {
        set: (work, ms) => { const timer = { at: this.now + ms, work }; this.#timers.push(timer); return timer; },
        clear: (timer) => { this.#timers = this.#timers.filter((one) => one !== timer); },
      },
      ...changes,
    }, () => {});
  }

  async settle() {
    for (let n = 0; n < 60; n += 1) await null;
  }

  /** Lets time pass, timer by timer. */
  async pass(ms) {
    const until = this.now + ms;
    await this.settle();
    for (;;) {
      const next = this.#timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.#timers = this.#timers.filter((one) => one !== next);
      this.now = Math.max(this.now, next.at);
      next.work();
      await this.settle();
    }
    this.now = until;
  }

  async opened(changes) {
    const shopper = this.tab(changes);
    await shopper.start();
    await this.pass(10_500);
    return shopper;
  }

  admit(threshold = 0.5, changes = {}) {
    this.status = { ...this.status, state: 'LIVE', ...changes, draw: { entries: 8, scale: 8, threshold, round: this.status.draw.round + 1, admitted: 4 } };
  }
}

const problem = (status, error, more = {}, retry) => [status, { error, ...more }, retry];

test('one tap, and the page does the rest up to the payment', async () => {
  const world = new World();
  const shopper = await world.opened();
  assert.equal(shopper.phase, 'open');
  await Promise.all([shopper.tap(), shopper.tap()]);
  assert.equal(world.count('entries'), 1);
  assert.equal(shopper.phase, 'drawing');
  world.admit();
  await world.pass(1_300);
  assert.equal(shopper.phase, 'admitted');
  await world.pass(3_000);
  assert.equal(world.count('claims'), 1);
  const { headers } = world.calls.find(({ name }) => name === 'claims');
  assert.deepEqual([headers['sale-pass'], headers['sale-entry'], headers['idempotency-key'], headers.authorization], ['p', 'e', 'key-0001', 'Bearer token']);
  await world.pass(1_100);
  assert.equal(shopper.phase, 'hold');
  world.answers.read = () => [200, world.claim('PAID')];
  await shopper.pay();
  assert.equal(shopper.phase, 'paid');
});

test('what costs nothing is taken without a provider', async () => {
  const world = new World();
  world.sale.price = { amount: 0, currency: 'INR', display: 'INR 0.00' };
  const shopper = await world.opened({ store: { pay: async () => assert.fail('nothing is to be paid') } });
  await shopper.tap();
  world.admit();
  await world.pass(5_400);
  assert.equal(shopper.phase, 'hold');
  world.answers.payments = () => [201, { provider: 'none', amount: 0, currency: 'INR', order_id: 'o1', status: 'paid' }];
  world.answers.read = () => [200, world.claim('PAID')];
  await shopper.pay();
  assert.equal(shopper.phase, 'paid');
});

test('who is to be counted has a ticket at once, and sends the tap again until it is counted', async () => {
  for (const [body, taps] of [[{ counted: false }, 3], [{}, 1]]) {
    const world = new World();
    const shopper = await world.opened();
    world.answers.entries = (times) => [
      [201, { ticket: 0.25, entry_token: 'edge.r', ...body }], problem(429, undefined), [200, { ticket: 0.25, entry_token: 'e' }],
    ][times - 1];
    await shopper.tap();
    assert.deepEqual([shopper.phase, shopper.mine.ticket, shopper.notice], ['drawing', 0.25, null]);
    await world.pass(3_000);
    assert.equal(world.count('entries'), taps);
    const [, ...again] = world.calls.filter(({ name }) => name === 'entries');
    assert.ok(again.every(({ headers }) => headers['sale-entry'] === 'edge.r'));
    assert.deepEqual([shopper.mine.entry, shopper.mine.uncounted], ['edge.r', undefined]);
  }
});

test('nobody is counted any more once the draw is', async () => {
  const world = new World();
  const shopper = await world.opened();
  world.answers.entries = (times) => (times === 1 ? [201, { ticket: 0.75, entry_token: 'edge.r', counted: false }] : problem(503, 'unavailable'));
  await shopper.tap();
  await world.pass(600);
  world.admit();
  await world.pass(1_500);
  const taps = world.count('entries');
  await world.pass(60_000);
  assert.equal(world.count('entries'), taps);
});

test('before the opening a tap does nothing, and one that was early by our clock is repeated', async () => {
  const world = new World();
  const shopper = world.tab();
  await shopper.start();
  await shopper.tap();
  assert.equal(world.count('entries'), 0);
  await world.pass(10_100);
  world.answers.entries = (times) => (times < 3 ? problem(425, 'not_open') : [201, { ticket: 0.25, entry_token: 'e' }]);
  const tapped = shopper.tap();
  await world.pass(3_000);
  await tapped;
  assert.equal(shopper.mine.ticket, 0.25);
});

test('a reload and a second tab lose nothing and do nothing twice', async () => {
  const world = new World();
  const first = await world.opened();
  await first.tap();
  const second = world.tab();
  await second.start();
  assert.equal(second.phase, 'drawing');
  second.reload();
  world.admit();
  await world.pass(6_000);
  const keys = new Set(world.calls.filter(({ name }) => name === 'claims').map(({ headers }) => headers['idempotency-key']));
  assert.equal(keys.size, 1);
  const third = world.tab();
  await third.start();
  assert.equal(third.phase, 'hold');
  assert.equal(world.count('entries'), 1);
});

test('what fails is repeated with the same key, after what was asked', async () => {
  const world = new World();
  const shopper = await world.opened();
  world.answers.entries = (times) => [undefined, problem(503, 'unavailable', {}, '1'), [201, { ticket: 0.25, entry_token: 'e' }]][times - 1];
  const tapped = shopper.tap();
  await world.pass(200);
  assert.equal(shopper.notice, 'offline');
  await world.pass(8_000);
  await tapped;
  assert.equal(shopper.notice, null);
  world.answers.claims = (times) => (times < 3 ? problem(503, 'frozen', {}, '2') : [201, world.claim('CLAIMED')]);
  world.admit();
  await world.pass(20_000);
  const claims = world.calls.filter(({ name }) => name === 'claims');
  assert.equal(claims.length, 3);
  assert.equal(new Set(claims.map(({ headers }) => headers['idempotency-key'])).size, 1);
  assert.ok(claims[1].at - claims[0].at >= 2_000);
});

test('an answer that is older than the status is asked again', async () => {
  const world = new World();
  const shopper = await world.opened();
  await shopper.tap();
  world.answers.claims = (times) => (times < 3 ? problem(403, 'not_admitted') : [201, world.claim('CLAIMED')]);
  world.admit();
  await world.pass(8_000);
  assert.equal(world.count('claims'), 3);
  assert.ok(['hold', 'confirming'].includes(shopper.phase));
});

test('who finds nothing waits for the next round, in which the page claims again', async () => {
  const world = new World();
  const shopper = await world.opened();
  await shopper.tap();
  world.answers.claims = () => problem(409, 'sold_out', { waitlist_position: 3 });
  world.admit(0.5, { waitlist_open: true, stock: 'ALL_CLAIMED' });
  await world.pass(9_000);
  assert.equal(shopper.phase, 'waitlist');
  assert.equal(world.count('claims'), 1);
  await shopper.subscribe();
  assert.equal(shopper.mine.subscribed, true);
  world.answers.claims = () => [201, world.claim('CLAIMED')];
  world.admit(0.6, { waitlist_open: true });
  await world.pass(9_000);
  assert.equal(shopper.phase, 'hold');
});

test('a round that is published while a claim is on its way is asked too', async () => {
  const world = new World();
  const shopper = await world.opened();
  await shopper.tap();
  world.answers.claims = (times) => {
    if (times > 1) return [201, world.claim('CLAIMED')];
    world.admit();
    shopper.poll();
    return problem(409, 'sold_out');
  };
  world.admit();
  await world.pass(12_000);
  assert.equal(world.status.draw.round, 2);
  assert.equal(shopper.phase, 'hold');
});

test('rounds for single units are not asked by all who found nothing, again and again', async () => {
  for (const [error, most] of [['sold_out', 8], ['not_admitted', Infinity]]) {
    const world = new World();
    const shopper = await world.opened();
    await shopper.tap();
    world.answers.claims = () => problem(error === 'sold_out' ? 409 : 403, error);
    for (let round = 0; round < 60; round += 1) {
      world.admit(0.5, { waitlist_open: true, stock: 'ALL_CLAIMED' });
      await world.pass(2_000);
    }
    // The control is a no that is none of the gates': it is asked again as before.
    assert.ok(most === Infinity ? world.count('claims') > 8 : world.count('claims') <= most, `${error}: ${world.count('claims')}`);
    world.answers.claims = () => [201, world.claim('CLAIMED')];
    await world.pass(61_000);
    assert.equal(shopper.phase, 'hold', error);
  }
});

test('an answer that was cut off behind its status is none', async () => {
  const world = new World();
  const shopper = await world.opened();
  await shopper.tap();
  world.admit();
  world.answers.claims = (times) => (times === 1 ? [201, null] : [200, world.claim('CLAIMED')]);
  world.answers.read = (times) => (times < 3 ? [200, null] : [200, world.claim('ORDERED')]);
  await world.pass(15_000);
  assert.equal(shopper.mine.claim.claim_id, 'c1');
  assert.equal(shopper.phase, 'hold');
});

test('a refusal for good is not repeated', async () => {
  const world = new World();
  const shopper = await world.opened();
  await shopper.tap();
  world.answers.claims = () => problem(422, 'invalid_field');
  world.admit();
  await world.pass(20_000);
  assert.equal(world.count('claims'), 1);
  assert.equal(shopper.phase, 'waiting');
});

test('a pass and an entry that are not good any more are got anew', async () => {
  const world = new World();
  const shopper = await world.opened();
  world.answers.entries = (times) => (times === 1 ? problem(401, 'invalid_pass') : [201, { ticket: 0.25, entry_token: `e${times}` }]);
  const tapped = shopper.tap();
  await world.pass(1_000);
  await tapped;
  assert.equal(world.count('passes'), 2);
  world.answers.claims = (times) => (times === 1 ? problem(401, 'invalid_entry') : [201, world.claim('CLAIMED')]);
  world.admit();
  await world.pass(6_000);
  assert.equal(world.calls.filter(({ name }) => name === 'claims').at(-1).headers['sale-entry'], 'e3');
});

test('a buyer too gets the secret once it is published', async () => {
  const world = new World();
  const shopper = await world.opened();
  await shopper.tap();
  world.answers.read = () => [200, world.claim('PAID')];
  world.admit();
  await world.pass(9_000);
  assert.equal(shopper.phase, 'paid');
  world.status = { ...world.status, state: 'ENDED' };
  world.sale = { ...world.sale, draw: { commitment: 'c', secret: 'ab' } };
  await world.pass(120_000);
  assert.equal(shopper.sale.draw.secret, 'ab');
});

test('for a sale that was moved the pass is got anew, once', async () => {
  const world = new World();
  const shopper = world.tab();
  await shopper.start();
  await world.settle();
  world.status = { ...world.status, opens_at: iso(OPENS + 60_000) };
  await world.pass(30_000);
  assert.equal(world.count('passes'), 2);
  assert.equal(shopper.phase, 'early');
});

test('in a race the tap is the claim, and who is late gets a place in line', async () => {
  const world = new World();
  world.sale = { ...world.sale, mode: 'race', opens_at: iso(OPENS), draw_closes_at: iso(OPENS) };
  world.status.draw.scale = 2;
  const shopper = await world.opened();
  assert.equal(shopper.phase, 'open');
  world.answers.claims = () => problem(409, 'sold_out', { ticket: 1.5, entry_token: 'late' });
  world.status = { ...world.status, state: 'ALL_CLAIMED', stock: 'ALL_CLAIMED', waitlist_open: true };
  await shopper.tap();
  await world.pass(3_000);
  assert.equal(world.count('entries'), 0);
  assert.equal(world.count('claims'), 1);
  assert.equal(shopper.phase, 'waitlist');
  assert.equal(shopper.mine.entry, 'late');
});

test('a declined payment can be tried again, and one that came too late is said', async () => {
  const world = new World();
  const shopper = await world.opened({ store: { pay: async () => 'declined' } });
  await shopper.tap();
  world.admit();
  await world.pass(9_000);
  await shopper.pay();
  assert.deepEqual([shopper.phase, shopper.notice], ['hold', 'declined']);
  world.answers.payments = () => problem(409, 'expired');
  world.answers.read = () => [200, world.claim('EXPIRED')];
  await shopper.pay();
  assert.deepEqual([shopper.phase, shopper.notice], ['lapsed', 'too_late']);
});

test('who gives a unit back is through', async () => {
  const world = new World();
  const shopper = await world.opened();
  await shopper.tap();
  world.admit();
  await world.pass(9_000);
  world.answers.give_back = () => [200, world.claim('CANCELLED')];
  await shopper.giveBack();
  assert.equal(shopper.phase, 'lapsed');
});

test('an account that may not take part hears it, and is not asked for again', async () => {
  const world = new World();
  world.answers.passes = () => problem(403, 'identity_limit');
  const shopper = await world.opened();
  await world.pass(60_000);
  assert.equal(shopper.phase, 'barred');
  assert.equal(world.count('passes'), 1);
});
