// The sale page: `?sale=<name>`. Wires clock, memory, shopper and view.

import { Api } from './api.js';
import { ServerClock } from './clock.js';
import { Memory } from './memory.js';
import { Shopper } from './shopper.js';
import * as store from './store.js';
import { languageOf, LANGUAGES } from './strings.js';
import { checkDraw } from './ticket.js';
import { View } from './view.js';

const sale_id = new URLSearchParams(location.search).get('sale') ?? '';
const storage = storageOf();
const view = new View(languageOf([storage?.getItem('language'), ...navigator.languages].filter(Boolean)));
const clock = new ServerClock();
const api = new Api({ session: store.token, tick: () => clock.tick() });
const memory = new Memory(storage, sale_id, subjectOf(await store.token().catch(() => null)));

let check = null;
let checked = null;

const shopper = new Shopper({
  sale_id, api, clock, memory, store,
  hidden: () => document.hidden,
  lock: (name, work) => (navigator.locks ? navigator.locks.request(name, work) : work()),
}, () => show());

function show() {
  view.show(shopper, clock.now(), check);
  const { sale, mine } = shopper;
  if (sale?.draw?.secret && checked !== mine.ticket) {
    checked = mine.ticket;
    void checkDraw(sale, mine).then((found) => {
      check = found;
      show();
    });
  }
}

// At the turn of each second of the server's clock.
function tick() {
  show();
  const now = clock.now();
  setTimeout(tick, Number.isNaN(now) ? 250 : 1_000 - (now % 1_000) + 5);
}

for (const id of ['main', 'second']) {
  document.getElementById(id).addEventListener('click', ({ currentTarget }) => {
    if (currentTarget.getAttribute('aria-disabled') === 'true') return;
    const { action } = currentTarget.dataset;
    if (action === 'giveBack' && !view.confirms()) return show();
    void shopper[action]();
  });
}

document.getElementById('language').addEventListener('click', () => {
  const other = Object.keys(LANGUAGES).find((one) => one !== view.language);
  storage?.setItem('language', other);
  view.language = other;
  show();
});

addEventListener('storage', ({ key }) => {
  if (key === memory.key) shopper.reload();
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) shopper.wake(true);
});
addEventListener('online', () => shopper.wake(false));

void shopper.start();
tick();

// The session's subject: what is kept is kept for each shopper.
function subjectOf(token) {
  try {
    return JSON.parse(atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/'))).sub;
  } catch {
    return '';
  }
}

function storageOf() {
  try {
    localStorage.getItem('language');
    return localStorage;
  } catch {
    return null;
  }
}
