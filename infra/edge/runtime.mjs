// The runtime of CloudFront Functions, as far as the documentation goes: one
// event, a key-value store, a clock that stands still during a run, and none of
// what Node has beside. Missing globals are absent here too, so that a use of
// one fails a test.
import { readFileSync } from 'node:fs';
import { createHash, createHmac } from 'node:crypto';
import vm from 'node:vm';

const SOURCE = new URL('./function.js', import.meta.url);

// What the language has here and the documentation does not list.
const ABSENT = ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'BigInt', 'BigInt64Array',
  'BigUint64Array', 'Map', 'Set', 'WeakMap', 'WeakSet', 'WeakRef', 'FinalizationRegistry',
  'Proxy', 'Reflect', 'Intl', 'eval', 'Iterator', 'AggregateError', 'escape', 'unescape'];

const CRYPTO = {
  createHash: (algorithm) => createHash(one(['md5', 'sha1', 'sha256'], algorithm)),
  createHmac: (algorithm, key) => createHmac(one(['md5', 'sha1', 'sha256'], algorithm), key),
};

function one(known, asked) {
  if (!known.includes(asked)) throw new TypeError(`not supported: ${asked}`);
  return asked;
}

/**
 * The function, compiled once as the edge does it: `handler(event)`. `read`
 * gives the text of a key or undefined, perhaps later; `clock` the time in milliseconds.
 */
export function load({ read, clock }) {
  // Of this module system the runtime knows one import.
  const source = readFileSync(SOURCE, 'utf8')
    .replace(/^import cf from 'cloudfront';$/m, '')
    .concat('\n;globalThis.handler = handler;');
  const kvs = {
    async get(key, options = {}) {
      const value = await read(key);
      if (value === undefined) throw new Error('KeyNotFound');
      return options.format === 'json' ? JSON.parse(value) : value;
    },
    async exists(key) { return await read(key) !== undefined; },
  };
  const inside = vm.createContext({
    cf: { kvs: () => kvs },
    require: (name) => ({ crypto: CRYPTO })[one(['crypto'], name)],
    Buffer,
    TextDecoder,
    TextEncoder,
    atob,
    btoa,
    console: { log() {} },
  }, { codeGeneration: { strings: false, wasm: false } });
  vm.runInContext(`${ABSENT.map((name) => `delete globalThis.${name};`).join('')}
    Date = (function (Real) {
      function Still(...given) { return given.length ? new Real(...given) : new Real(Still.now()); }
      Still.now = () => now(); Still.parse = Real.parse; Still.UTC = Real.UTC;
      return Still;
    })(Date);`, Object.assign(inside, { now: () => clock() }));
  vm.runInContext(`'use strict';${source}`, inside, { filename: 'function.js' });
  return inside.handler;
}

/** A viewer request as CloudFront hands it over: header names in lower case. */
export function viewerRequest(method, uri, headers = {}) {
  const shown = {};
  for (const [name, value] of Object.entries(headers)) {
    const values = [].concat(value);
    shown[name.toLowerCase()] = values.length > 1
      ? { value: values[0], multiValue: values.map((one) => ({ value: one })) }
      : { value: values[0] };
  }
  return {
    version: '1.0',
    context: { eventType: 'viewer-request', requestId: 'r', distributionId: 'E', distributionDomainName: 'd' },
    viewer: { ip: '203.0.113.7' },
    request: { method, uri, querystring: {}, headers: shown, cookies: {} },
  };
}
