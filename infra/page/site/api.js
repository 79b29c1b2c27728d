// Calls of the API. An answer is data, whatever it says; only what never became
// an answer is `status: 0`.

const TIMEOUT_MS = 20_000;

export class Api {
  #fetch;
  #session;
  #tick;

  /** `session(renew)` gives the store's token, or null. */
  constructor({ session, tick, fetch = globalThis.fetch.bind(globalThis) }) {
    this.#fetch = fetch;
    this.#session = session;
    this.#tick = tick;
  }

  sale(id) { return this.#call('GET', `/v1/sales/${id}`, { open: true }); }
  status(id) { return this.#call('GET', `/v1/sales/${id}/status`, { open: true }); }
  pass(id, body) { return this.#call('POST', `/v1/sales/${id}/passes`, { body }); }
  enter(id, headers) { return this.#call('POST', `/v1/sales/${id}/entries`, { headers }); }
  waitlist(id, headers) { return this.#call('POST', `/v1/sales/${id}/waitlist`, { headers }); }
  claim(id, headers) { return this.#call('POST', `/v1/sales/${id}/claims`, { headers }); }
  readClaim(claim) { return this.#call('GET', `/v1/claims/${claim}`); }
  giveBack(claim) { return this.#call('DELETE', `/v1/claims/${claim}`); }
  payment(order) { return this.#call('POST', `/v1/orders/${order}/payments`); }

  async #call(method, path, options = {}) {
    const first = await this.#once(method, path, options, false);
    // The gateway's own 401 has no code: the session is over.
    return first.status === 401 && !first.error && !options.open
      ? this.#once(method, path, options, true)
      : first;
  }

  async #once(method, path, { headers = {}, body, open = false }, renew) {
    const sent = { ...headers };
    if (!open) {
      const token = await this.#session(renew);
      if (!token) return { status: 401, body: {}, error: 'no_session' };
      sent.authorization = `Bearer ${token}`;
    }
    if (body) sent['content-type'] = 'application/json';
    const begun = this.#tick();
    try {
      const response = await this.#fetch(path, {
        method, headers: sent, body: body && JSON.stringify(body), signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      const received = this.#tick();
      const read = await response.json().catch(() => null);
      // Half of an answer is none: it may have been cut off behind its status.
      if (!read && response.status < 300) return { status: 0, body: {}, error: 'unreachable' };
      return {
        status: response.status, body: read ?? {}, error: read?.error, begun, received,
        retry_after_s: Number(response.headers.get('retry-after')) || undefined,
      };
    } catch {
      return { status: 0, body: {}, error: 'unreachable' };
    }
  }
}

/** Whether the same call may work later: it failed, or was too much. */
export function isPassing({ status, error }) {
  return status === 0 || status === 429 || status >= 500 || error === 'conflict' || error === 'order_not_ready';
}
