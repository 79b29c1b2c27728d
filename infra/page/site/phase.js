// Where a shopper is: one word from what the server says and what the shopper
// has. A pure function, so that every tab and every reload comes to the same.

const BY_CLAIM = {
  PAID: 'paid', ORDERED: 'hold', CLAIMED: 'confirming', CONFIRMING: 'confirming',
  EXPIRED: 'lapsed', CANCELLED: 'lapsed', VOIDED: 'voided',
};

/**
 * | phase | the shopper |
 * |---|---|
 * | `loading` | nothing is known yet |
 * | `early` | waits for the opening |
 * | `open` | may tap |
 * | `late` | may tap, behind the draw |
 * | `drawing` | has tapped, the draw is not counted |
 * | `waiting` | has a place behind those who are admitted |
 * | `waitlist` | the same, and all units are held |
 * | `admitted` | may claim; the page does so by itself |
 * | `confirming` | has claimed, the order is being written |
 * | `hold` | must pay in time; `paying` while a payment is on its way |
 * | `paid`, `lapsed`, `voided` | is through |
 * | `sold_out`, `ended`, `barred` | gets nothing |
 */
export function phaseOf({ sale, status, mine = {} }, now) {
  if (mine.claim) {
    const phase = BY_CLAIM[mine.claim.status] ?? 'confirming';
    return phase === 'hold' && mine.paying ? 'paying' : phase;
  }
  if (!sale || !status || Number.isNaN(now)) return 'loading';
  if (status.state === 'ENDED' || now >= Date.parse(status.closes_at)) return 'ended';
  if (mine.barred) return 'barred';
  if (now < Date.parse(status.opens_at)) return 'early';
  if (status.stock === 'SOLD_OUT') return 'sold_out';
  return sale.mode === 'draw' ? inDraw(sale, status, mine, now) : inRace(status, mine);
}

function inDraw(sale, status, mine, now) {
  if (mine.ticket === undefined) return now < windowEnd(sale, status) ? 'open' : 'late';
  if (status.draw.scale === 0) return 'drawing';
  return inLine(status, mine);
}

/**
 * When the draw's window closes, in milliseconds. The sale object may be a copy
 * from before its opening was moved; the status is not.
 */
export function windowEnd(sale, status) {
  return Date.parse(status.opens_at) + Date.parse(sale.draw_closes_at) - Date.parse(sale.opens_at);
}

// A line begins where all units are held; before that whoever comes may claim.
function inRace(status, mine) {
  if (mine.ticket !== undefined && status.waitlist_open) return inLine(status, mine);
  return mine.tapped ? 'admitted' : 'open';
}

function inLine(status, mine) {
  const isAdmitted = mine.ticket < status.draw.threshold && mine.refused_round !== status.draw.round;
  if (isAdmitted) return 'admitted';
  return status.waitlist_open ? 'waitlist' : 'waiting';
}

/** Place in line, from 1; null until the draw is counted. As the server says it. */
export function placeOf(ticket, { entries, scale }) {
  if (scale === 0 || ticket === undefined) return null;
  return ticket < 1
    ? Math.floor(ticket * entries) + 1
    : entries + Math.round((ticket - 1) * scale) + 1;
}
