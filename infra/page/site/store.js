// What the store plugs in: who the shopper is, what it attests about them, and
// how a payment is confirmed. This file is the one for the local system, with
// its own identity provider and the sandbox of payments; a store puts its own
// in its place.

const session = { token: null };

/** A session token of the store's identity provider, or null: signed out. */
export async function token(renew) {
  if (session.token && !renew) return session.token;
  const asked = new URLSearchParams(location.search).get('shopper');
  const sub = asked ?? localStorage.getItem('shopper') ?? crypto.randomUUID();
  localStorage.setItem('shopper', sub);
  const response = await fetch('/_dev/token', { method: 'POST', body: JSON.stringify({ sub }) }).catch(() => null);
  session.token = response?.ok ? (await response.json()).access_token : null;
  return session.token;
}

/** What the store attests for a sale that limits accounts, if it does. */
export async function attestation() {
  return null;
}

/**
 * Has the shopper pay: `confirmed`, `declined`, or `unknown`. At a real provider
 * its own page or form does this; then its webhook decides.
 */
export async function pay({ intent_id, client_secret, provider }) {
  if (provider !== 'sandbox') return 'unknown';
  const body = JSON.stringify({ client_secret, outcome: 'succeed' });
  const confirmed = await fetch(`/v1/sandbox/intents/${intent_id}/confirm`, { method: 'POST', body });
  if (!confirmed.ok) return 'unknown';
  const { event } = await confirmed.json();
  const told = await fetch('/v1/webhooks/sandbox', {
    method: 'POST', headers: { 'sandbox-signature': event.signature }, body: event.payload,
  });
  return told.ok ? 'confirmed' : 'unknown';
}
