// A sale and its shoppers, as the tests of the edge see them. Passes and entry
// tokens have no signature here: the edge can't look at it.
import { createHmac } from 'node:crypto';
import { load, viewerRequest } from '../runtime.mjs';

export const KEY = 'edge-key-for-tests-0123456789abcdef';
export const SECRET = '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f';
export const SALE = 'fs1111';
export const OPENS_MS = Date.parse('2027-11-11T12:00:00+05:30');

/** The document of a sale: a draw of two seconds, 10,000 units, nothing counted yet. */
export function document(changes = {}) {
  return {
    v: 1, version: 7, fresh_until_ms: OPENS_MS + 7_200_000, mode: 'draw',
    opens_at: '2027-11-11T12:00:00.000+05:30',
    opens_ms: OPENS_MS, draw_closes_ms: OPENS_MS + 2_000, closes_ms: OPENS_MS + 3_600_000,
    units: 10_000, ended: false, paused: false, sold_out: false, waitlist_only: false,
    entries: 0, scale: 0, threshold: 0, waitlist_open: false,
    sample: 500, secret: SECRET, keys: [KEY], origin: 'https://shop.example',
    ...changes,
  };
}

export const COUNTED = { entries: 3_600_000, scale: 3_600_000, threshold: 11_000 / 3_600_000 };

export function code(key, ...lines) {
  return createHmac('sha256', key).update(lines.join('\n')).digest().subarray(0, 16).toString('base64url');
}

const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const token = (typ, claims) => `${part({ alg: 'ES256', typ, kid: 'k' })}.${part(claims)}.${'s'.repeat(86)}`;

/** A pass; `changes` are made after its code. */
export function pass(pass_id, { key = KEY, changes = {}, sub = 'u_42', sale = SALE } = {}) {
  const nbf = OPENS_MS / 1_000;
  const exp = nbf + 3_600;
  const claims = { iss: 'flash-sale', aud: sale, sub, device: 'd1', nbf, exp, iat: nbf - 600, jti: pass_id,
    mac: code(key, sale, pass_id, sub, nbf, exp) };
  return token('pass+jwt', { ...claims, ...changes });
}

export function entryToken(pass_id, ticket, changes = {}) {
  return token('entry+jwt', { iss: 'flash-sale', aud: SALE, sub: 'u_42', pass: pass_id, ticket,
    iat: OPENS_MS / 1_000, exp: OPENS_MS / 1_000 + 3_600, ...changes });
}

export function drawn(pass_id, secret = SECRET) {
  const digest = createHmac('sha256', Buffer.from(secret, 'hex')).update(pass_id).digest();
  return { ticket: Number(digest.readBigUInt64BE(0) >> 11n) / 2 ** 53, lot: digest.readUInt32BE(8) };
}

/** Pass ids by what the draw makes of them. */
export function find(wanted) {
  for (let n = 0; ; n += 1) {
    const id = n.toString(16).padStart(32, '0');
    if (wanted(drawn(id))) return id;
  }
}

let now = 0;
let store = {};
const handler = load({ read: (key) => store[key], clock: () => now });

/** Sends one request to an edge with this document, `ms` after the opening. */
export async function send(action, headers = {}, { sale = document(), ms = 1_000, method = 'POST', id = SALE, uri } = {}) {
  store = sale === null ? {} : { [`sale:${SALE}`]: typeof sale === 'string' ? sale : JSON.stringify(sale) };
  now = OPENS_MS + ms;
  const event = viewerRequest(method, uri ?? `/v1/sales/${id}/${action}`, headers);
  const before = JSON.stringify(event.request);
  const answer = await handler(event);
  if (answer === event.request) {
    if (JSON.stringify(answer) !== before) throw new Error('a forwarded request was changed');
    return { forwarded: true };
  }
  const flat = {};
  for (const [name, { value }] of Object.entries(answer.headers)) flat[name] = value;
  return { status: answer.statusCode, headers: flat, body: answer.body, json: JSON.parse(answer.body) };
}
