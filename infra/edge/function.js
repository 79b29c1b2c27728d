// The edge: a CloudFront Function (runtime 2.0) on viewer requests. It says no
// with the bytes of the origin and forwards the rest; see docs/edge.md.
import cf from 'cloudfront';

const crypto = require('crypto');
const store = cf.kvs();

const ROUTE = /^\/v1\/sales\/([A-Za-z0-9_-]{1,64})\/(passes|entries|claims|waitlist)$/;
const KEY = /^[!-+\--~]{8,128}$/;
const RECEIPT = 'edge.';

const PROBLEMS = {
  invalid_idempotency_key: [400, 'The Idempotency-Key is missing or not valid.'],
  invalid_pass: [401, 'The sale pass is not valid.'],
  invalid_entry: [401, 'The entry token is not valid.'],
  not_admitted: [403, 'The ticket is not admitted yet.'],
  sold_out: [409, 'No unit is given out now.'],
  ended: [410, 'The sale has ended.'],
  not_open: [425, 'The sale has not opened yet.'],
  paused: [503, 'The sale is paused.'],
};

// What can't be decided here (no document, no secret, an error) is forwarded.
async function handler(event) {
  const request = event.request;
  try {
    // The gateway reads a path decoded.
    const route = request.method === 'POST' && ROUTE.exec(decodeURIComponent(request.uri));
    if (!route) {
      return request;
    }
    const sale = await store.get('sale:' + route[1], { format: 'json' });
    const call = { headers: request.headers, sale: sale, id: route[1], now: Date.now() };
    const known = sale.v === 1 && call.now < sale.fresh_until_ms;
    const answer = known && decide(call, route[2]);
    return answer ? finished(answer, call) : request;
  } catch (error) {
    return request;
  }
}

function decide(call, action) {
  if (action === 'claims') {
    return claim(call);
  }
  // In the origin's order, which is another for claims.
  if (ended(call)) {
    return problem('ended');
  }
  if (action === 'passes') {
    return null;
  }
  if (call.now < call.sale.opens_ms) {
    return notOpen(call);
  }
  const pass = validPass(call);
  if (!pass) {
    return invalidToken(call, 'invalid_pass', 'Sale-Pass');
  }
  return action === 'entries' ? entry(call, pass) : null;
}

// The ticket of a tap in the draw's window. The origin counts a sample, which
// comes again with its receipt. Later taps need a place that only it gives.
function entry(call, pass) {
  const sale = call.sale;
  if (sale.paused) {
    return problem('paused', {}, 1);
  }
  if (sale.mode !== 'draw' || call.now >= sale.draw_closes_ms || !sale.secret) {
    return null;
  }
  const draw = drawn(sale.secret, pass.jti);
  const counted = !(draw.lot % sale.sample > 0);
  if (counted && (!(sale.sample > 1) || header(call, 'sale-entry') !== undefined)) {
    return null;
  }
  const position = place(sale, draw.ticket);
  return {
    status: 201,
    type: 'application/json',
    body: `{"ticket":${float(draw.ticket)},"position":${position || null},`
      + `"entry_token":"${RECEIPT}${code(sale.keys[0], receipt(call.id, pass))}",`
      + `"sale_id":"${call.id}"${counted ? ',"counted":false' : ''}}`,
  };
}

// No claim of a draw can be held with a ticket that was never admitted, so a no
// here hides nobody's claim. Who is admitted is always the origin's.
function claim(call) {
  const sale = call.sale;
  const key = header(call, 'idempotency-key');
  if (key === undefined) {
    return problem('invalid_idempotency_key', { detail: '"Idempotency-Key is required"' });
  }
  if (!KEY.test(key)) {
    const rule = 'must be 8 to 128 printable ASCII characters without spaces and commas';
    return problem('invalid_idempotency_key', {
      detail: `"Idempotency-Key ${rule}, and sent once"`,
    });
  }
  if (call.now < sale.opens_ms) {
    return notOpen(call);
  }
  const pass = validPass(call);
  // Of all but those who were admitted: they may hold a unit.
  const no = ended(call) ? problem('ended') : pass && sale.paused && problem('paused', {}, 5);
  if (!pass) {
    return no || invalidToken(call, 'invalid_pass', 'Sale-Pass');
  }
  const draw = sale.mode === 'draw';
  const sent = header(call, 'sale-entry');
  if (sent === undefined) {
    // In a race the line begins at the origin.
    return no || (draw ? invalidToken(call, 'invalid_entry', 'Sale-Entry') : null);
  }
  const ticket = ticketOf(call, pass, sent);
  if (ticket === null) {
    return no || problem('invalid_entry');
  }
  if (ticket === undefined || ticket < sale.threshold) {
    return null;
  }
  if (no) {
    return no;
  }
  if (sale.sold_out || sale.waitlist_only) {
    // Who claimed in a race while there was no line may hold a unit.
    return draw ? soldOut(sale, ticket) : null;
  }
  return draw || sale.waitlist_open ? notAdmitted(sale, ticket) : null;
}

function soldOut(sale, ticket) {
  const position = place(sale, ticket);
  return problem('sold_out', {
    waitlist_position: position ? Math.max(position - sale.units, 1) : null,
  });
}

function notAdmitted(sale, ticket) {
  const members = { ticket: float(ticket), threshold: float(sale.threshold) };
  const position = place(sale, ticket);
  if (position) {
    members.position = position;
  }
  return problem('not_admitted', members);
}

function ended(call) {
  return call.sale.ended || call.now >= call.sale.closes_ms;
}

function notOpen(call) {
  return problem('not_open', { opens_at: `"${call.sale.opens_at}"` });
}

function invalidToken(call, error, name) {
  const sent = header(call, name.toLowerCase()) !== undefined;
  return problem(error, sent ? {} : { detail: `"The header ${name} is required."` });
}

// The claims of the pass, if its code is ours and it is for now and this sale.
function validPass(call) {
  const pass = claimsOf(header(call, 'sale-pass'));
  const now_s = Math.floor(call.now / 1000);
  if (!pass || pass.iss !== 'flash-sale' || pass.aud !== call.id
    || typeof pass.jti !== 'string' || !(pass.nbf <= now_s && now_s < pass.exp)) {
    return null;
  }
  const message = [call.id, pass.jti, pass.sub, pass.nbf, pass.exp].join('\n');
  return isCode(call.sale.keys, message, pass.mac) ? pass : null;
}

// The ticket that an entry token says: null if it is none of this pass,
// undefined if that can't be told here. The origin's tokens are believed: a lie
// only gets a no, or reaches the origin.
function ticketOf(call, pass, token) {
  if (token.startsWith(RECEIPT)) {
    if (!isCode(call.sale.keys, receipt(call.id, pass), token.slice(RECEIPT.length))) {
      return null;
    }
    return call.sale.secret ? drawn(call.sale.secret, pass.jti).ticket : undefined;
  }
  const entry = claimsOf(token);
  const fits = entry && entry.iss === 'flash-sale' && entry.aud === call.id
    && entry.sub === pass.sub && entry.pass === pass.jti
    && Math.floor(call.now / 1000) < entry.exp && typeof entry.ticket === 'number';
  return fits ? entry.ticket : null;
}

// Its code proves a tap in the window: the pass has the drawn ticket.
function receipt(id, pass) {
  return ['entry', id, pass.jti, pass.sub].join('\n');
}

// The ticket, 53 bits of the digest, and the lot that decides who is counted,
// of other bits: the one says nothing of the other.
function drawn(secret, pass_id) {
  const digest = crypto.createHmac('sha256', Buffer.from(secret, 'hex')).update(pass_id).digest();
  const high = digest.readUInt32BE(0) * 2097152;
  const low = digest.readUInt32BE(4) >>> 11;
  return { ticket: (high + low) / 9007199254740992, lot: digest.readUInt32BE(8) };
}

// Place in line, from 1; 0 until the draw is counted.
function place(sale, ticket) {
  if (sale.scale === 0) {
    return 0;
  }
  return ticket < 1
    ? Math.floor(ticket * sale.entries) + 1
    : sale.entries + Math.round((ticket - 1) * sale.scale) + 1;
}

// HMAC-SHA256, cut to 128 bits.
function code(key, message) {
  const digest = crypto.createHmac('sha256', key).update(message).digest();
  return digest.subarray(0, 16).toString('base64url');
}

// Several keys while one is changed for another.
function isCode(keys, message, sent) {
  return typeof sent === 'string' && keys.some((key) => isSame(code(key, message), sent));
}

// In the same time wherever they differ.
function isSame(ours, theirs) {
  let difference = ours.length ^ theirs.length;
  for (let i = 0; i < ours.length; i++) {
    difference |= ours.charCodeAt(i) ^ theirs.charCodeAt(i);
  }
  return difference === 0;
}

// What a token says of itself, unverified.
function claimsOf(token) {
  const parts = token === undefined || token.length > 4096 ? [] : token.split('.');
  if (parts.length !== 3) {
    return null;
  }
  try {
    return JSON.parse(Buffer.from(parts[1], 'base64url').toString());
  } catch (error) {
    return null;
  }
}

// Repeated headers reach the origin as one, joined by commas.
function header(call, name) {
  const sent = call.headers[name];
  if (!sent) {
    return undefined;
  }
  return sent.multiValue ? sent.multiValue.map((one) => one.value).join(',') : sent.value;
}

// Members are JSON already; the origin writes them in the alphabet's order.
function problem(error, extra, retry_after_s) {
  const known = PROBLEMS[error];
  const members = Object.assign({
    error: `"${error}"`,
    status: known[0],
    title: `"${known[1]}"`,
    type: `"urn:flash-sale:problem:${error}"`,
  }, extra);
  const names = Object.keys(members).sort();
  return {
    status: known[0],
    type: 'application/problem+json',
    retry_after_s: retry_after_s,
    body: '{' + names.map((name) => `"${name}":${members[name]}`).join(',') + '}',
  };
}

// A double as the origin writes it.
function float(x) {
  if (x % 1 === 0) {
    return x + '.0';
  }
  return x >= 1e-6 && x < 1e-5 ? x.toExponential() : String(x);
}

function finished(answer, call) {
  const headers = {
    'content-type': { value: answer.type },
    'cache-control': { value: 'no-store' },
  };
  if (answer.retry_after_s) {
    headers['retry-after'] = { value: String(answer.retry_after_s) };
  }
  // Which pages may read it, as the gateway says it.
  const origin = header(call, 'origin');
  const allowed = call.sale.origin;
  if (origin && (allowed === '*' || allowed === origin)) {
    headers['access-control-allow-origin'] = { value: allowed };
    headers['access-control-expose-headers'] = { value: 'retry-after' };
  }
  return {
    statusCode: answer.status,
    headers: headers,
    body: answer.body,
  };
}
