// What the page says where the shopper is: texts and numbers, no elements.

import { odds, likelihood } from './odds.js';
import { placeOf, windowEnd } from './phase.js';
import { say } from './strings.js';

const STEPS = {
  loading: 0, early: 0, open: 0, late: 0, drawing: 1, waiting: 1, waitlist: 1, admitted: 2, confirming: 2, hold: 3, paying: 3, paid: 4,
};

/** Everything to show. `now` is the server's time in milliseconds. */
export function wordsOf({ phase, sale, status, mine, busy, notice }, now, language) {
  const gaps = sale && status ? gapsOf({ sale, status, mine }, now, language) : {};
  const t = (key) => say(language, key, gaps);
  const isRace = sale?.mode === 'race';
  const isFree = sale?.price.amount === 0;
  const paused = status?.paused && !['paid', 'ended', 'lapsed', 'voided', 'hold', 'paying'].includes(phase);
  const shown = {
    kicker: t(`${phase}_kicker`),
    title: t(titleOf(phase, isRace, isFree)),
    text: textOf(phase, isRace, t),
    step: STEPS[phase] ?? null,
    button: buttonOf({ phase, busy, isRace, isFree, mine }, t),
    second: secondOf({ phase, busy, mine }, t),
    hint: hintOf({ phase, mine }, t),
    notice: (paused && t('paused')) || (notice && t(notice)) || '',
    visual: visualOf(phase),
    left: gaps.left ?? '',
    gaps,
  };
  return shown;
}

function titleOf(phase, isRace, isFree) {
  if (phase === 'open' && isRace) return 'race_title';
  if (phase === 'hold' && isFree) return 'take_title';
  return phase === 'waiting' ? 'place' : `${phase}_title`;
}

function textOf(phase, isRace, t) {
  if (phase === 'early') return t(isRace ? 'early_race' : 'early_draw');
  if (phase === 'open' && isRace) return t('race_text');
  return t(`${phase}_text`);
}

function buttonOf({ phase, busy, isRace, isFree, mine }, t) {
  switch (phase) {
    case 'early': return { label: t('opens_at'), action: 'tap', live: false };
    case 'open': return busy
      ? { label: t(isRace ? 'buying' : 'entering'), action: 'tap', live: false }
      : { label: t(isRace ? 'buy' : 'enter'), action: 'tap', live: true };
    case 'late': return { label: t(busy ? 'entering' : 'join'), action: 'tap', live: !busy };
    case 'hold': return { label: t(busy === 'pay' ? 'starting' : isFree ? 'take' : 'pay'), action: 'pay', live: !busy };
    case 'paying': return { label: t(busy ? 'starting' : 'resume'), action: 'pay', live: !busy };
    case 'waiting': case 'waitlist': return mine.subscribed
      ? null
      : { label: t('subscribe'), action: 'subscribe', live: !busy, quiet: true };
    default: return null;
  }
}

function secondOf({ phase, busy }, t) {
  return phase === 'hold' ? { label: t('give_back'), sure: t('sure'), action: 'giveBack', live: !busy } : null;
}

function hintOf({ phase, mine }, t) {
  if (phase === 'early') return t(mine.pass ? 'pass_ready' : 'pass_wait');
  if (['waiting', 'waitlist'].includes(phase) && mine.subscribed) return t('subscribed');
  return '';
}

function visualOf(phase) {
  if (phase === 'early' || phase === 'loading') return 'countdown';
  if (phase === 'hold' || phase === 'paying') return 'deadline';
  if (phase === 'waiting' || phase === 'waitlist') return 'line';
  if (['drawing', 'admitted', 'confirming', 'open'].includes(phase)) return 'running';
  return phase === 'paid' ? 'done' : 'none';
}

function gapsOf({ sale, status, mine }, now, language) {
  const number = (value) => new Intl.NumberFormat(tagOf(language)).format(value);
  const place = placeOf(mine.ticket, status.draw);
  // As the server counts it: it depends on the ticket alone, so it never gets worse.
  const ahead = place === null ? 0 : Math.max(place - (sale.mode === 'draw' ? status.units : 0), 1);
  const everyone = Math.max(status.draw.entries, place ?? 0);
  const served = status.waitlist_open ? status.units : status.draw.admitted;
  const { expected, chance } = odds(ahead - 1, status.units);
  const opens = Date.parse(status.opens_at);
  const until = mine.claim?.pay_by ? Date.parse(mine.claim.pay_by) : opens;
  const left = mine.claim ? until - now : now < opens ? opens - now : windowEnd(sale, status) - now;
  return {
    units: number(status.units),
    limit: number(sale.limit_per_customer),
    price: money(sale.price, language),
    opens: timeOf(opens, now, language),
    until: timeOf(until, now, language),
    window: spanOf(windowEnd(sale, status) - opens, language),
    left: clockOf(left),
    left_ms: left,
    place: place === null ? '' : number(place),
    everyone: number(everyone),
    admitted: number(status.draw.admitted),
    ahead: number(ahead),
    expected: number(expected),
    likelihood: say(language, likelihood(chance)),
    order: mine.claim?.order?.order_id ?? '',
    at: place === null ? null : share(place, everyone),
    may: share(served, everyone),
    served: say(language, status.waitlist_open ? 'held' : 'may_buy', { count: number(served) }),
  };
}

/** What came out of the shopper's check of the draw. */
export function verdictOf(check, language) {
  if (!check) return say(language, 'sealed');
  if (!check.committed || check.same === false) return say(language, 'check_bad');
  if (!check.same) return say(language, 'check_fits');
  const number = (value) => new Intl.NumberFormat(tagOf(language)).format(value);
  const { place, everyone, line } = check;
  const where = place ? ` ${say(language, 'check_line', { place: number(place), everyone: number(everyone), admitted: number(line) })}` : '';
  return say(language, 'check_good') + where;
}

const share = (part, whole) => (whole > 0 ? Math.min(part / whole, 1) : 0);
const tagOf = (language) => `${language}-IN`;

/**
 * `₹9,999`: as many decimals as the currency has, none if they are all 0. The API's
 * text says how many that are. The decimal point is set in the digits, never by a
 * division, whose result may be another number: 2^53 - 1 minor units stay what they are.
 */
export function money({ amount, currency, display }, language) {
  const decimals = display.split('.')[1]?.length ?? 0;
  const digits = String(amount).padStart(decimals + 1, '0');
  const [whole, part] = [digits.slice(0, digits.length - decimals), digits.slice(digits.length - decimals)];
  const shown = /[1-9]/.test(part) ? decimals : 0;
  // A text is formatted digit by digit; a number would be a double first.
  return new Intl.NumberFormat(tagOf(language), {
    style: 'currency', currency, minimumFractionDigits: shown, maximumFractionDigits: shown,
  }).format(shown ? `${whole}.${part}` : whole);
}

/** `12:00`, with the day if it is another one. In the reader's own zone. */
function timeOf(at_ms, now, language) {
  const day = new Date(at_ms).toDateString() === new Date(now).toDateString() ? {} : { weekday: 'short', day: 'numeric', month: 'short' };
  return new Intl.DateTimeFormat(tagOf(language), { hour: 'numeric', minute: '2-digit', ...day }).format(at_ms);
}

/** `2 seconds`, `10 minutes`. */
function spanOf(ms, language) {
  const [value, unit] = ms < 120_000 ? [ms / 1_000, 'second'] : [Math.round(ms / 60_000), 'minute'];
  return new Intl.NumberFormat(tagOf(language), { style: 'unit', unit, unitDisplay: 'long', maximumFractionDigits: 1 }).format(value);
}

/** `09:58`, `1:02:03`; never negative. The second that has begun counts whole. */
export function clockOf(ms) {
  const { days, hours, minutes, seconds } = partsOf(ms);
  const two = (number) => String(number).padStart(2, '0');
  const whole = days * 24 + hours;
  return whole ? `${whole}:${two(minutes)}:${two(seconds)}` : `${two(minutes)}:${two(seconds)}`;
}

/** A span in days, hours, minutes and seconds. */
export function partsOf(ms) {
  const all = Math.max(Math.ceil(ms / 1_000), 0);
  return {
    days: Math.floor(all / 86_400), hours: Math.floor(all / 3_600) % 24, minutes: Math.floor(all / 60) % 60, seconds: all % 60,
  };
}
