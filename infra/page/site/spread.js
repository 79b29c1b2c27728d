// Spreading: what millions of pages would do in the same moment, they do one
// after the other.

/** A number in [0, 1) that follows from a text, evenly (FNV-1a, then mixed). */
export function fractionOf(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}

/** Of claims that were refused, in seconds. */
const SPREAD_S_MAX = 60;

/**
 * How long after its admission a page claims, in milliseconds: by its ticket. Who
 * found nothing `refused` times, since more are asked than there are units, comes
 * back over twice the time with each: a unit that comes back is not asked for by
 * all of them again.
 */
export function claimDelay(ticket, spread_s, refused = 0, random = Math.random) {
  if (!refused) return fractionOf(String(ticket)) * spread_s * 1_000;
  return random() * Math.min(Math.max(spread_s, 1) * 2 ** refused, SPREAD_S_MAX) * 1_000;
}

/** When to repeat what failed `attempt` times, in milliseconds. */
export function retryDelay(attempt, retry_after_s, random = Math.random) {
  const least = Math.max(retry_after_s ?? 0, 1) * 1_000;
  const grown = Math.min(least * 1.6 ** (attempt - 1), 30_000);
  return Math.max(grown, least) * (1 + random() / 2);
}

/** When to look at the status again, in milliseconds. */
export function pollDelay({ phase, until_open_ms = 0, hidden = false }, random = Math.random) {
  const every = {
    ended: 60_000, paid: 30_000, lapsed: 30_000, voided: 30_000, barred: 30_000, sold_out: 10_000,
    early: until_open_ms > 120_000 ? 30_000 : until_open_ms > 15_000 ? 5_000 : 1_000,
  }[phase] ?? 1_000;
  return Math.max(every, hidden ? 5_000 : 0) * (0.8 + random() * 0.4);
}
