// The shopper's own check of the draw, once its secret is published.

import { placeOf } from './phase.js';

const { subtle } = globalThis.crypto ?? {};

const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const hexOf = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');

/** The ticket of a pass: 53 bits of HMAC-SHA256(secret, pass id), in [0, 1). */
export async function drawnTicket(secret, pass_id) {
  const key = await subtle.importKey('raw', bytesOf(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const view = new DataView(await subtle.sign('HMAC', key, new TextEncoder().encode(pass_id)));
  return (view.getUint32(0) * 2 ** 21 + (view.getUint32(4) >>> 11)) / 2 ** 53;
}

/** What was promised before the first pass was issued. */
export async function commitmentOf(secret) {
  return hexOf(await subtle.digest('SHA-256', bytesOf(secret)));
}

/**
 * Compares what is published with what was promised and told: null while the
 * secret is sealed, else `{ committed, ticket, same }`; `same` is null for who
 * came behind the draw. With `place`, `everyone` and `line`: which number the
 * ticket was, of how many, and how many were admitted in the end.
 */
export async function checkDraw(sale, { pass_id, ticket }) {
  const secret = sale?.draw?.secret;
  if (!secret || !/^([0-9a-f]{2})+$/.test(secret) || !subtle) return null;
  const committed = await commitmentOf(secret) === (sale.draw.commitment ?? sale.commitment);
  if (!pass_id || ticket === undefined || ticket >= 1) return { committed, ticket: null, same: null };
  const recomputed = await drawnTicket(secret, pass_id);
  const { entries, scale, admitted } = sale.draw;
  const place = placeOf(recomputed, { entries, scale: scale ?? 0 });
  return { committed, ticket: recomputed, same: recomputed === ticket, ...(place && { place, everyone: entries, line: admitted }) };
}
