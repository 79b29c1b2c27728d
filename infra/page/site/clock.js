// The server's time on a device whose clock may be minutes off.
//
// The device's date is never looked at: a monotonic clock is set by the status,
// which tells the server's time. A copy from a cache is older than it says, and
// the way takes time, so a sample is right within its round trip and never too
// late by more: the greatest of the good samples is the nearest.

const SAMPLES_MAX = 12;

export class ServerClock {
  #monotonic;
  #samples = [];
  #offset = null;

  /** `monotonic` tells milliseconds since any moment. */
  constructor(monotonic = () => performance.now()) {
    this.#monotonic = monotonic;
  }

  /** Milliseconds of the monotonic clock, for `sample`. */
  tick() {
    return this.#monotonic();
  }

  /** The server said that it is `server_ms`, between two of our moments. */
  sample(server_ms, sent, received) {
    if (!Number.isFinite(server_ms) || received < sent) return;
    this.#samples.push({ offset: server_ms - (sent + received) / 2, trip: received - sent });
    if (this.#samples.length > SAMPLES_MAX) this.#samples.shift();
    // A slow answer says little: half of its way is the error.
    const quickest = Math.min(...this.#samples.map(({ trip }) => trip));
    const good = this.#samples.filter(({ trip }) => trip <= 2 * quickest + 50);
    this.#offset = Math.max(...good.map(({ offset }) => offset));
  }

  /** The device slept or woke up: what was measured before may not hold. */
  forget() {
    this.#samples = [];
  }

  get isSet() {
    return this.#offset !== null;
  }

  /** The server's time in milliseconds since 1970; NaN before the first sample. */
  now() {
    return this.#offset === null ? NaN : this.#monotonic() + this.#offset;
  }
}
