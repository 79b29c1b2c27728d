import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { ServerClock } from '../site/clock.js';
import { likelihood, odds } from '../site/odds.js';
import { phaseOf, placeOf } from '../site/phase.js';
import { claimDelay, fractionOf, pollDelay, retryDelay } from '../site/spread.js';
import { LANGUAGES, languageOf, say } from '../site/strings.js';
import { checkDraw, commitmentOf, drawnTicket } from '../site/ticket.js';
import { clockOf, money, partsOf, verdictOf, wordsOf } from '../site/words.js';

const vectors = JSON.parse(readFileSync(new URL('../../edge/vectors.json', import.meta.url), 'utf8'));
const OPENS = Date.parse('2027-11-11T12:00:00+05:30');
const SALE = {
  sale_id: 'fs1111', name: 'Phone', mode: 'draw', units: 10_000, limit_per_customer: 1, claim_spread_s: 3,
  price: { amount: 999_900, currency: 'INR', display: 'INR 9999.00' }, opens_at: '2027-11-11T12:00:00.000+05:30', draw_closes_at: '2027-11-11T12:00:02.000+05:30', commitment: 'c0ffee',
};
const status = (changes = {}, draw = {}) => ({
  state: 'LIVE', stock: 'AVAILABLE', opens_at: '2027-11-11T12:00:00.000+05:30', closes_at: '2027-11-11T13:00:00.000+05:30',
  server_time: '2027-11-11T12:00:05.000+05:30', paused: false, waitlist_open: false, units: 10_000, free: 0, ...changes,
  draw: { entries: 100_000, scale: 100_000, threshold: 0.11, round: 1, admitted: 11_000, ...draw },
});

// A world with its own time: a device whose date is never asked for, a way to
// the server and back, and a cache in between.
function clockAfter({ trips, age = () => 0, samples = 10 }) {
  let device = 5_000;
  let server = OPENS;
  const pass = (ms) => { device += ms; server += ms; };
  const clock = new ServerClock(() => device);
  for (let n = 0; n < samples; n += 1) {
    const sent = clock.tick();
    pass(trips(n) / 2);
    const told = server - age(n);
    pass(trips(n) / 2);
    clock.sample(told, sent, clock.tick());
    pass(1_000);
  }
  return clock.now() - server;
}

test('the countdown is right to a tenth of a second, whatever the date and the way', () => {
  assert.ok(Math.abs(clockAfter({ trips: () => 300 })) < 1);
  // A cache keeps the status for a second; the freshest copy counts.
  const aged = clockAfter({ trips: () => 300, age: (n) => (n * 370) % 1_000 });
  assert.ok(Math.abs(aged) < 100, `${aged}`);
  // One answer took seconds.
  const slow = clockAfter({ trips: (n) => (n % 4 === 3 ? 8_000 : 120) });
  assert.ok(Math.abs(slow) < 100, `${slow}`);
  const once = clockAfter({ trips: () => 2_000, age: () => 900, samples: 1 });
  assert.ok(Math.abs(once) < 1_000, `${once}`);
});

test('a device whose date is five minutes off counts down as any other', () => {
  const Right = Date;
  for (const off of [-300_000, 300_000]) {
    class Wrong extends Right {
      constructor(...parts) { super(...(parts.length ? parts : [Right.now() + off])); }
      static now() { return Right.now() + off; }
    }
    globalThis.Date = Wrong;
    try {
      assert.ok(Math.abs(Date.now() - Right.now() - off) < 100);
      // As the page makes it, 300 ms from the server.
      const clock = new ServerClock();
      const told = Date.parse(new Right().toISOString());
      clock.sample(told, clock.tick() - 150, clock.tick() + 150);
      assert.ok(Math.abs(clock.now() - Right.now()) < 1_000, `${off}`);
      const before = status({ opens_at: new Right(Right.now() + 60_000).toISOString(), closes_at: new Right(Right.now() + 90_000).toISOString() });
      assert.equal(phaseOf({ sale: SALE, status: before, mine: {} }, clock.now()), 'early');
    } finally {
      globalThis.Date = Right;
    }
  }
});

test('what is no time sets no clock', () => {
  const clock = new ServerClock(() => 0);
  clock.sample(NaN, 0, 0);
  clock.sample(OPENS, 10, 0);
  assert.equal(clock.isSet, false);
  assert.ok(Number.isNaN(clock.now()));
});

test('no logic of the page asks the device for its date', () => {
  for (const name of ['app', 'api', 'clock', 'memory', 'odds', 'phase', 'shopper', 'spread', 'ticket', 'view', 'words']) {
    const source = readFileSync(new URL(`../site/${name}.js`, import.meta.url), 'utf8');
    assert.doesNotMatch(source, /Date\.now|new Date\(\)|\bDate\(\)/, name);
  }
});

test('where a shopper is follows from the status and what they have', () => {
  const at = (now_ms, mine, state, sale = SALE) => phaseOf({ sale, status: state, mine }, OPENS + now_ms);
  const drawing = status({ state: 'DRAWING' }, { scale: 0, entries: 0, threshold: 0, admitted: 0, round: 0 });
  assert.equal(phaseOf({ sale: SALE, status: null }, OPENS), 'loading');
  assert.equal(phaseOf({ sale: SALE, status: status() }, NaN), 'loading');
  assert.equal(at(-1, {}, drawing), 'early');
  assert.equal(at(0, {}, drawing), 'open');
  assert.equal(at(1_999, {}, drawing), 'open');
  assert.equal(at(2_000, {}, drawing), 'late');
  assert.equal(at(100, { ticket: 0.05 }, drawing), 'drawing');
  assert.equal(at(5_000, { ticket: 0.05 }, status()), 'admitted');
  assert.equal(at(5_000, { ticket: 0.05, refused_round: 1 }, status()), 'waiting');
  assert.equal(at(5_000, { ticket: 0.05, refused_round: 1 }, status({}, { round: 2 })), 'admitted');
  assert.equal(at(5_000, { ticket: 0.11 }, status()), 'waiting');
  assert.equal(at(5_000, { ticket: 0.2 }, status({ waitlist_open: true })), 'waitlist');
  assert.equal(at(5_000, { ticket: 1.2 }, status({ waitlist_open: true })), 'waitlist');
  assert.equal(at(5_000, { ticket: 0.2 }, status({ stock: 'SOLD_OUT' })), 'sold_out');
  assert.equal(at(5_000, {}, status({ stock: 'SOLD_OUT' })), 'sold_out');
  assert.equal(at(5_000, { barred: true }, status()), 'barred');
  assert.equal(at(3_600_000, {}, status()), 'ended');
  assert.equal(at(5_000, {}, status({ state: 'ENDED' })), 'ended');
  const race = { ...SALE, mode: 'race' };
  assert.equal(at(0, {}, status({}, { threshold: 0 }), race), 'open');
  assert.equal(at(0, { tapped: true }, status({}, { threshold: 0 }), race), 'admitted');
  assert.equal(at(0, { ticket: 1.5 }, status({ waitlist_open: true }, { threshold: 1.2 }), race), 'waitlist');
  assert.equal(at(0, { ticket: 1.1 }, status({ waitlist_open: true }, { threshold: 1.2 }), race), 'admitted');
});

test('a sale that was moved is open when the status says so', () => {
  const moved = status({ state: 'DRAWING', opens_at: '2027-11-11T13:00:00.000+05:30', closes_at: '2027-11-11T14:00:00.000+05:30' });
  const at = (now_ms) => phaseOf({ sale: SALE, status: moved, mine: {} }, OPENS + now_ms);
  assert.deepEqual([at(3_599_999), at(3_600_000), at(3_601_999), at(3_602_000)], ['early', 'open', 'open', 'late']);
});

test('a claim comes before everything, also after the end', () => {
  for (const [state, phase] of [['CLAIMED', 'confirming'], ['CONFIRMING', 'confirming'], ['ORDERED', 'hold'], ['PAID', 'paid'],
    ['EXPIRED', 'lapsed'], ['CANCELLED', 'lapsed'], ['VOIDED', 'voided']]) {
    const mine = { ticket: 0.9, claim: { status: state } };
    assert.equal(phaseOf({ sale: SALE, status: status({ state: 'ENDED', stock: 'SOLD_OUT' }), mine }, OPENS + 9e6), phase);
  }
  assert.equal(phaseOf({ sale: SALE, status: status(), mine: { paying: true, claim: { status: 'ORDERED' } } }, OPENS), 'paying');
});

test('the page\'s place and comparison are the server\'s', () => {
  for (const { entries, scale, threshold, ticket, admitted, position } of vectors.places) {
    assert.equal(placeOf(ticket, { entries, scale }), position);
    assert.equal(ticket < threshold, admitted);
  }
});

test('claims of a round are spread evenly over the seconds', () => {
  const parts = new Array(6).fill(0);
  const tickets = 12_000;
  for (let n = 0; n < tickets; n += 1) {
    // The first admitted of a draw, as close together as they come.
    const delay = claimDelay((n + 0.5) / tickets * 0.003, 3);
    assert.ok(delay >= 0 && delay < 3_000);
    parts[Math.floor(delay / 500)] += 1;
  }
  // Four standard deviations of 2,000.
  for (const count of parts) assert.ok(Math.abs(count - 2_000) < 165, `${parts}`);
  // Late tickets too, whose fractions follow each other.
  const late = Array.from({ length: 1_000 }, (_, n) => fractionOf(String(1 + n / 4_096)));
  assert.ok(Math.abs(late.reduce((sum, one) => sum + one) / 1_000 - 0.5) < 0.04);
  assert.equal(claimDelay(0.5, 0), 0);
  assert.equal(claimDelay(0.4142, 3), claimDelay(0.4142, 3));
  // Who found nothing comes back over twice the time with each, to a minute.
  const longest = [1, 2, 3, 4, 5, 50].map((refused) => Math.round(claimDelay(0.4142, 3, refused, () => 0.9999) / 1_000));
  assert.deepEqual(longest, [6, 12, 24, 48, 60, 60]);
  assert.ok(claimDelay(0.4142, 0, 1, () => 0.5) > 0);
});

test('retries wait at least as asked, longer each time, and never in step', () => {
  assert.ok(retryDelay(1, 5, () => 0) >= 5_000);
  assert.ok(retryDelay(1, undefined, () => 0) >= 1_000);
  assert.ok(retryDelay(5, 1, () => 0) > retryDelay(2, 1, () => 0));
  assert.ok(retryDelay(99, 1, () => 0.99) < 45_000);
  assert.notEqual(retryDelay(1, 1, () => 0.1), retryDelay(1, 1, () => 0.9));
});

test('the status is looked at more often as the opening comes near', () => {
  const wait = (phase, until_open_ms, hidden) => pollDelay({ phase, until_open_ms, hidden }, () => 0.5);
  assert.equal(wait('early', 3_600_000), 30_000);
  assert.equal(wait('early', 60_000), 5_000);
  assert.equal(wait('early', 9_000), 1_000);
  assert.equal(wait('waiting'), 1_000);
  assert.equal(wait('waiting', 0, true), 5_000);
  assert.equal(wait('sold_out'), 10_000);
});

test('the odds are those of a draw of those who do not pay', () => {
  assert.deepEqual([odds(0, 10_000).expected, odds(0, 2).expected], [1_000, 1]);
  assert.ok(odds(0, 10_000).chance > 0.999);
  assert.ok(Math.abs(odds(999, 10_000).chance - 0.5) < 0.02);
  assert.ok(odds(1_200, 10_000).chance < 0.001);
  assert.ok(odds(0, 0).chance === 0);
  assert.deepEqual([0.9, 0.5, 0.1].map(likelihood), ['likely', 'possible', 'unlikely']);
});

test('a published secret gives the tickets of the vectors', async () => {
  for (const { secret, pass_id, ticket } of vectors.tickets) assert.equal(await drawnTicket(secret, pass_id), ticket);
});

test('the check of the draw: sealed, good, and what does not fit', async () => {
  const { secret, pass_id, ticket } = vectors.tickets[0];
  const commitment = await commitmentOf(secret);
  const open = { ...SALE, draw: { commitment, secret } };
  assert.equal(await checkDraw(SALE, { pass_id, ticket }), null);
  assert.equal(await checkDraw({ ...SALE, draw: { commitment } }, { pass_id, ticket }), null);
  assert.equal(await checkDraw({ ...SALE, draw: { commitment, secret: 'no hex' } }, { pass_id, ticket }), null);
  assert.deepEqual(await checkDraw(open, { pass_id, ticket }), { committed: true, ticket, same: true });
  assert.equal((await checkDraw(open, { pass_id, ticket: 0.5 })).same, false);
  assert.equal((await checkDraw({ ...open, draw: { commitment: 'c0ffee', secret } }, { pass_id, ticket })).committed, false);
  assert.equal((await checkDraw({ ...SALE, commitment, draw: { secret } }, { pass_id, ticket })).committed, true);
  const counted = { ...open, draw: { ...open.draw, entries: 3_600_000, scale: 3_600_000, admitted: 11_000 } };
  const found = await checkDraw(counted, { pass_id, ticket });
  const place = Math.floor(ticket * 3_600_000) + 1;
  assert.deepEqual([found.place, found.everyone, found.line], [place, 3_600_000, 11_000]);
  assert.equal(verdictOf({ ...found, place: 48_102 }, 'en'),
    'The secret fits the fingerprint, and your ticket is the one it gives. You were number 48,102 of 36,00,000; the line was drawn at 11,000.');
  // Nobody is told a place by a check that does not fit.
  assert.doesNotMatch(verdictOf({ ...found, same: false }, 'en'), /number/);
  assert.doesNotMatch(verdictOf({ ...found, committed: false }, 'en'), /number/);
  // Who came behind the draw has a place by arrival, and no drawn ticket.
  assert.deepEqual(await checkDraw(open, { pass_id, ticket: 1.25 }), { committed: true, ticket: null, same: null });
});

test('every language says everything, with the same gaps', () => {
  const gaps = (text) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();
  for (const [language, texts] of Object.entries(LANGUAGES)) {
    assert.deepEqual(Object.keys(texts).sort(), Object.keys(LANGUAGES.en).sort(), language);
    for (const [key, text] of Object.entries(texts)) assert.deepEqual(gaps(text), gaps(LANGUAGES.en[key]), `${language} ${key}`);
  }
  assert.deepEqual([languageOf(['fr', 'hi-IN']), languageOf(['fr']), languageOf([])], ['hi', 'en', 'en']);
});

test('no phase leaves a gap or a text open, in any language', () => {
  const cases = {
    loading: {}, early: {}, open: {}, late: {}, drawing: { ticket: 0.3 }, waiting: { ticket: 0.3 }, waitlist: { ticket: 0.3 },
    admitted: { ticket: 0.1 }, confirming: { claim: { status: 'CLAIMED' } }, barred: {}, sold_out: {}, ended: {}, voided: {}, lapsed: {},
    ...Object.fromEntries(['hold', 'paying', 'paid'].map((phase) => [phase,
      { claim: { pay_by: '2027-11-11T12:10:00.000+05:30', order: { order_id: 'ord_1' } } }])),
  };
  for (const language of Object.keys(LANGUAGES)) {
    for (const mode of ['draw', 'race']) {
      for (const [phase, mine] of Object.entries(cases)) {
        for (const [busy, notice] of [[null, null], ['enter', 'slow'], ['pay', 'declined'], ['claim', 'offline']]) {
          const model = { phase, sale: { ...SALE, mode }, status: status(), mine, busy, notice };
          const words = wordsOf(model, OPENS + (phase === 'early' ? -90_000 : 1_000), language);
          const all = [words.kicker, words.title, words.text, words.hint, words.notice, words.button?.label, words.second?.label].join(' ');
          assert.doesNotMatch(all, /[{}]|undefined|NaN|Invalid/, `${language} ${phase}`);
          assert.ok(words.title && words.kicker && words.text);
        }
      }
    }
  }
  assert.ok(wordsOf({ phase: 'loading', mine: {} }, NaN, 'en').title);
});

test('the number on the waitlist is the server\'s, also for who was admitted and found nothing', () => {
  const at = (ticket, round) => wordsOf({ phase: 'waitlist', sale: SALE, mine: { ticket, refused_round: round },
    status: status({ waitlist_open: true, stock: 'ALL_CLAIMED' }) }, OPENS + 5_000, 'en');
  assert.equal(at(0.104_999, 1).title, 'Number 500 on the waitlist');
  assert.equal(at(0.5).title, 'Number 40,001 on the waitlist');
  assert.equal(at(0.5).gaps.served, '10,000 units held');
});

test('money has the decimals of its currency, to the last minor unit', () => {
  const shown = (amount, currency, display) => money({ amount, currency, display }, 'en').replace(/[^\d.]/g, '');
  assert.equal(money(SALE.price, 'en'), '₹9,999');
  assert.equal(money({ amount: 999_950, currency: 'INR', display: 'INR 9999.50' }, 'en'), '₹9,999.50');
  assert.equal(money({ amount: 1_999, currency: 'USD', display: 'USD 19.99' }, 'en'), '$19.99');
  for (const [amount, currency, display] of [
    [1, 'INR', 'INR 0.01'], [9_007_199_254_740_991, 'INR', 'INR 90071992547409.91'],
    [5, 'USD', 'USD 0.05'], [820, 'USD', 'USD 8.20'], [58_242, 'USD', 'USD 582.42'], [9_007_199_254_740_989, 'USD', 'USD 90071992547409.89'],
    [1, 'JPY', 'JPY 1'], [9_999, 'JPY', 'JPY 9999'], [9_007_199_254_740_991, 'JPY', 'JPY 9007199254740991'],
    [10, 'KWD', 'KWD 0.010'], [10_005, 'KWD', 'KWD 10.005'], [9_007_199_254_740_991, 'KWD', 'KWD 9007199254740.991'],
  ]) {
    // The API's text, but for the signs between thousands.
    assert.equal(shown(amount, currency, display), display.slice(4), display);
  }
  // Decimals that say nothing are left out.
  assert.deepEqual([shown(0, 'KWD', 'KWD 0.000'), shown(10_000, 'KWD', 'KWD 10.000'), shown(100, 'USD', 'USD 1.00')], ['0', '10', '1']);
});

test('each of the first ten thousand amounts is shown as it is', () => {
  for (const [currency, decimals] of [['INR', 2], ['USD', 2], ['JPY', 0], ['KWD', 3]]) {
    const scale = 10 ** decimals;
    for (let amount = 0; amount <= 10_000; amount++) {
      const part = String(amount % scale).padStart(decimals, '0');
      const whole = String(Math.trunc(amount / scale));
      const display = `${currency} ${decimals ? `${whole}.${part}` : whole}`;
      const expected = decimals && amount % scale ? `${whole}.${part}` : whole;
      assert.equal(money({ amount, currency, display }, 'en').replace(/[^\d.]/g, ''), expected, display);
    }
  }
});

test('times are counted to the end', () => {
  assert.deepEqual([clockOf(598_001), clockOf(1), clockOf(0), clockOf(-5), clockOf(3_723_000), clockOf(90_000_000)],
    ['09:59', '00:01', '00:00', '00:00', '1:02:03', '25:00:00']);
  assert.deepEqual(partsOf(90_061_000), { days: 1, hours: 1, minutes: 1, seconds: 1 });
  assert.equal(say('en', 'units', { units: '5' }), '5 units, {limit} each');
});
