// What a shopper has, kept for every tab and reload of this browser.

export class Memory {
  #storage;
  #key;
  #held;

  /** One sale and one shopper. Without storage it lasts as long as the page. */
  constructor(storage, sale, shopper) {
    this.#storage = storage;
    this.#key = `flash-sale:${sale}:${shopper}`;
    this.#held = this.#read() ?? {};
  }

  get key() {
    return this.#key;
  }

  get mine() {
    return this.#held;
  }

  /** Takes in what another tab has written. */
  reload() {
    this.#held = this.#read() ?? this.#held;
  }

  /** Changes members; `undefined` drops one. Another tab's changes stay. */
  keep(changes) {
    this.#held = { ...this.#held, ...this.#read(), ...changes };
    for (const [name, value] of Object.entries(changes)) if (value === undefined) delete this.#held[name];
    try {
      this.#storage?.setItem(this.#key, JSON.stringify(this.#held));
    } catch {
      // Full or forbidden: the page still works until it is closed.
    }
  }

  #read() {
    try {
      return JSON.parse(this.#storage?.getItem(this.#key) ?? 'null');
    } catch {
      return null;
    }
  }
}
