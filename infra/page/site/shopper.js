// What the page does for a shopper: looks at the status, gets the pass, sends
// the tap, claims when admitted, reads the claim, pays. Everything that waits
// or fails is repeated here; the view only shows the model.

import { isPassing } from './api.js';
import { phaseOf } from './phase.js';
import { claimDelay, pollDelay, retryDelay } from './spread.js';

const READ_MS = 1_000;
const HELD_MS = 4_000;
/** Over so long pages spread the calls that count their entries. */
const COUNT_MS = 1_000;
/** Who is told late that it is their turn loses time to pay. */
const POLL_RETRY_MS_MAX = 10_000;

export class Shopper {
  #world;
  #timers = new Map();
  #failed = {};
  #counts = 0;
  #counting = false;

  /**
   * `world`: `sale_id`, `api`, `clock`, `memory`, `store`, and for tests
   * `timers` (`set`, `clear`), `random`, `hidden()`, `lock(name, work)`, `newKey()`.
   */
  constructor(world, changed) {
    this.#world = {
      random: Math.random,
      hidden: () => false,
      lock: (_, work) => work(),
      newKey: () => crypto.randomUUID(),
      timers: { set: (work, ms) => setTimeout(work, ms), clear: (timer) => clearTimeout(timer) },
      ...world,
    };
    this.changed = changed;
    this.sale = null;
    this.status = null;
    this.busy = null;
    this.notice = null;
  }

  get mine() {
    return this.#world.memory.mine;
  }

  get phase() {
    return phaseOf(this, this.#world.clock.now());
  }

  async start() {
    await Promise.all([this.#loadSale(), this.poll()]);
    this.#evaluate();
    void this.#pass();
  }

  /** Looks at the status now, and from then on again and again. */
  async poll() {
    const { api, clock, sale_id, random, hidden } = this.#world;
    const answer = await api.status(sale_id);
    if (answer.status === 200) {
      this.status = answer.body;
      clock.sample(Date.parse(answer.body.server_time), answer.begun, answer.received);
      this.#recovered('status');
      // A pass is good for the sale's times as they were when it was asked for.
      if (this.mine.pass && this.mine.pass_for !== this.status.opens_at && !this.busy) void this.#pass(true);
    } else {
      this.#fail('status', answer);
    }
    this.#evaluate();
    const until_open_ms = this.status ? Date.parse(this.status.opens_at) - clock.now() : 0;
    const wait = this.#failed.status
      ? Math.min(retryDelay(this.#failed.status, answer.retry_after_s, random), POLL_RETRY_MS_MAX)
      : pollDelay({ phase: this.phase, until_open_ms, hidden: hidden() }, random);
    this.#later('poll', wait, () => this.poll());
  }

  /** The page is seen again, or another tab has changed what the shopper has. */
  wake(forget) {
    if (forget) this.#world.clock.forget();
    this.#world.memory.reload();
    void this.poll();
  }

  /** Another tab has changed what the shopper has. */
  reload() {
    this.#world.memory.reload();
    this.#evaluate();
  }

  /** The one tap: an entry of the draw or behind it; in a race, the claim. */
  async tap() {
    if (this.busy || !['open', 'late'].includes(this.phase)) return;
    if (this.sale.mode === 'race') {
      this.#keep({ tapped: true });
      this.#evaluate();
      return;
    }
    await this.#alone('enter', async () => {
      if (this.mine.ticket !== undefined) return;
      await this.#until('enter', () => this.#enter());
    });
  }

  async pay() {
    // Once more while one is open is the same payment.
    if (this.busy || !['hold', 'paying'].includes(this.phase)) return;
    await this.#alone('pay', async () => {
      const { api, store } = this.#world;
      const payment = await this.#until('pay', () => api.payment(this.mine.claim.order.order_id));
      if (payment.status >= 300) {
        this.notice = payment.error === 'expired' ? 'too_late' : null;
        return this.#readClaim();
      }
      // What costs nothing is paid by the tap.
      if (payment.body.status === 'paid') return this.#readClaim();
      this.#keep({ paying: true });
      this.#changed();
      const outcome = await store.pay(payment.body).catch(() => 'unknown');
      if (outcome === 'declined') {
        this.#keep({ paying: undefined });
        this.notice = 'declined';
      }
      await this.#readClaim();
    });
  }

  async giveBack() {
    if (this.busy || this.phase !== 'hold') return;
    await this.#alone('give_back', async () => {
      const answer = await this.#until('give_back', () => this.#world.api.giveBack(this.mine.claim.claim_id));
      if (answer.status === 200) this.#keep({ claim: answer.body });
      else await this.#readClaim();
    });
  }

  async subscribe() {
    if (this.busy || this.mine.subscribed) return;
    await this.#alone('subscribe', async () => {
      const answer = await this.#until('subscribe', () => this.#world.api.waitlist(this.#world.sale_id, this.#headers()));
      if (answer.status < 300) this.#keep({ subscribed: true });
    });
  }

  // What follows from where the shopper is. Any number of calls of it are the
  // same as one.
  #evaluate() {
    const { phase } = this;
    if (phase === 'admitted') {
      const spread = this.sale.mode === 'race' && this.mine.ticket === undefined
        ? 0
        : claimDelay(this.mine.ticket, this.sale.claim_spread_s, this.mine.refused, this.#world.random);
      if (!this.#timers.has('claim')) this.#later('claim', spread, () => this.#claim());
    } else {
      this.#cancel('claim');
    }
    if (phase === 'drawing' && this.mine.uncounted) {
      if (!this.#timers.has('count') && !this.#counting) this.#later('count', this.#world.random() * COUNT_MS, () => this.#count());
    } else {
      this.#cancel('count');
    }
    if (['confirming', 'hold', 'paying'].includes(phase)) {
      const wait = phase === 'hold' ? HELD_MS : READ_MS;
      if (!this.#timers.has('read')) this.#later('read', wait, () => this.#readClaim());
    }
    // The secret is published after the sale, for buyers too.
    const isOver = this.status?.state === 'ENDED' && this.sale?.mode === 'draw';
    if (isOver && !this.sale.draw?.secret && !this.#timers.has('sale')) {
      this.#later('sale', 60_000, () => this.#loadSale());
    }
    this.#changed();
  }

  async #loadSale() {
    const { api, sale_id, random } = this.#world;
    const answer = await api.sale(sale_id);
    if (answer.status === 200) {
      this.sale = answer.body;
      this.#recovered('sale');
    } else {
      this.#fail('sale', answer);
      const wait = answer.status === 404 ? 10_000 : retryDelay(this.#failed.sale, answer.retry_after_s, random);
      this.#later('sale', wait, () => this.#loadSale());
    }
    this.#evaluate();
  }

  /** The right to take part, asked for as soon as the page is there; or the
   * answer that says why there is none. */
  async #pass(again = false) {
    if (this.mine.pass && !again) return null;
    const { api, sale_id, store, memory, newKey } = this.#world;
    if (!this.mine.device) this.#keep({ device: `d-${newKey()}` });
    const attestation = await store.attestation?.(sale_id);
    const body = { device: memory.mine.device, ...(attestation ? { attestation } : {}) };
    const answer = await api.pass(sale_id, body);
    if (answer.status === 200 || answer.status === 201) {
      this.#keep({ pass: answer.body.pass, pass_id: answer.body.pass_id, pass_for: this.status?.opens_at });
      this.#recovered('pass');
      this.#changed();
      return null;
    }
    if (answer.error === 'identity_limit') this.#keep({ barred: true });
    else if (answer.error !== 'ended') {
      this.#fail('pass', answer);
      // Nobody is in a hurry before the opening.
      if (isPassing(answer) && !this.busy) {
        this.#later('pass', retryDelay(this.#failed.pass, answer.retry_after_s, this.#world.random), () => this.#pass());
      }
    }
    this.#changed();
    return answer;
  }

  async #enter() {
    const { api, sale_id, memory } = this.#world;
    const failed = await this.#pass();
    if (failed) return failed;
    const answer = await api.enter(sale_id, this.#headers());
    if (answer.status < 300 && answer.status > 0) {
      const uncounted = answer.body.counted === false ? true : undefined;
      this.#keep({ ticket: answer.body.ticket, entry: answer.body.entry_token, uncounted });
    } else if (answer.error === 'invalid_pass') {
      await this.#pass(true);
      return { status: 0, error: 'again' };
    } else if (answer.error === 'invalid_entry') {
      memory.keep({ entry: undefined });
      return { status: 0, error: 'again' };
    } else if (answer.error === 'not_open') {
      // Our clock was a little ahead of the server's.
      await this.poll();
      return { status: 0, error: 'again' };
    }
    return answer;
  }

  /** The ticket is the shopper's already; the same tap once more is for the count. */
  async #count() {
    const { api, sale_id, random } = this.#world;
    this.#counting = true;
    const answer = await api.enter(sale_id, this.#headers());
    this.#counting = false;
    if (isPassing(answer)) {
      this.#counts += 1;
      this.#later('count', retryDelay(this.#counts, answer.retry_after_s, random), () => this.#count());
    } else {
      this.#keep({ uncounted: undefined });
    }
  }

  async #claim() {
    if (this.phase !== 'admitted') return;
    await this.#alone('claim', async () => {
      if (this.mine.claim) return;
      // One attempt, one key, whatever happens in between.
      if (!this.mine.key) this.#keep({ key: this.#world.newKey() });
      await this.#until('claim', () => this.#claimOnce());
    });
  }

  async #claimOnce() {
    const { api, sale_id } = this.#world;
    const failed = await this.#pass();
    if (failed) return failed;
    // The round that this asks in: a newer one may be read before the answer is here.
    const round = this.status?.draw.round;
    const answer = await api.claim(sale_id, { ...this.#headers(), 'idempotency-key': this.mine.key });
    if (answer.status < 300 && answer.status > 0) {
      this.#keep({ claim: answer.body });
    } else if (answer.error === 'limit_reached') {
      this.#keep({ claim: { claim_id: answer.body.claim_id, status: 'CONFIRMING' } });
    } else if (answer.error === 'sold_out') {
      const place = answer.body.entry_token ? { entry: answer.body.entry_token, ticket: answer.body.ticket } : {};
      this.#keep({ ...place, refused_round: round, refused: (this.mine.refused ?? 0) + 1, tapped: undefined });
    } else if (answer.error === 'not_admitted') {
      // The status is newer than what answered: a moment later it knows too.
      if (this.mine.ticket < this.status?.draw.threshold) return { status: 0, error: 'again' };
    } else if (answer.error === 'invalid_pass') {
      await this.#pass(true);
      return { status: 0, error: 'again' };
    } else if (answer.error === 'invalid_entry') {
      this.#keep({ entry: undefined, ticket: undefined });
      await this.#enter();
      return { status: 0, error: 'again' };
    } else if (answer.error === 'not_open') {
      await this.poll();
      return { status: 0, error: 'again' };
    } else if (!isPassing(answer)) {
      // Whatever it is, the same once more would be answered the same.
      this.#keep({ refused_round: round, tapped: undefined });
      this.notice = 'fault';
    }
    return answer;
  }

  async #readClaim() {
    this.#cancel('read');
    const claim_id = this.mine.claim?.claim_id;
    if (!claim_id) return;
    const answer = await this.#world.api.readClaim(claim_id);
    if (answer.status === 200) {
      this.#keep({ claim: answer.body, ...(answer.body.status === 'ORDERED' ? {} : { paying: undefined }) });
      this.#recovered('read');
    } else if (isPassing(answer)) {
      this.#fail('read', answer);
    }
    this.#evaluate();
  }

  #headers() {
    const { pass, entry } = this.mine;
    return { 'sale-pass': pass, ...(entry ? { 'sale-entry': entry } : {}) };
  }

  /** Repeats a call until it is answered for good. */
  async #until(what, call) {
    for (let attempt = 1; ; attempt += 1) {
      const answer = await call();
      const again = answer.error === 'again';
      if ((!again && !isPassing(answer)) || this.phase === 'ended' || this.phase === 'barred') {
        this.#recovered(what);
        return answer;
      }
      if (!again) this.#fail(what, answer);
      this.#changed();
      const wait = again && attempt < 4
        ? 300 * attempt
        : retryDelay(attempt, answer.retry_after_s, this.#world.random);
      await new Promise((resume) => this.#later(`${what} again`, wait, resume));
    }
  }

  /** One thing at a time, here and in every other tab. */
  async #alone(what, work) {
    if (this.busy) return;
    this.busy = what;
    this.notice = null;
    this.#changed();
    try {
      await this.#world.lock(`flash-sale:${this.#world.sale_id}`, async () => {
        this.#world.memory.reload();
        await work();
      });
    } finally {
      this.busy = null;
      this.#evaluate();
    }
  }

  #keep(changes) {
    this.#world.memory.keep(changes);
  }

  #fail(what, { status, error }) {
    this.#failed[what] = (this.#failed[what] ?? 0) + 1;
    if (error === 'no_session') this.notice = 'no_session';
    else if (error === 'paused') this.notice = 'paused';
    else if (status === 404) this.notice = 'not_found';
    else if (status === 0) this.notice = 'offline';
    else this.notice = 'slow';
  }

  #recovered(what) {
    if (!this.#failed[what]) return;
    delete this.#failed[what];
    if (Object.keys(this.#failed).length === 0) this.notice = null;
  }

  #later(name, ms, work) {
    this.#cancel(name);
    this.#timers.set(name, this.#world.timers.set(() => {
      this.#timers.delete(name);
      void work();
    }, ms));
  }

  #cancel(name) {
    if (this.#timers.has(name)) this.#world.timers.clear(this.#timers.get(name));
    this.#timers.delete(name);
  }

  #changed() {
    this.changed(this);
  }
}
