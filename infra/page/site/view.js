// Shows the words. An element is only touched when it changes, so that a screen
// reader hears what is new and nothing else.

import { LANGUAGES, say } from './strings.js';
import { money, partsOf, verdictOf, wordsOf } from './words.js';

const $ = (id) => document.getElementById(id);

export class View {
  #language;
  #phase = null;
  #step = null;
  #sure = false;

  constructor(language) {
    this.language = language;
  }

  get language() {
    return this.#language;
  }

  set language(language) {
    this.#language = language;
    document.documentElement.lang = language;
    const t = (key) => say(language, key);
    const other = Object.keys(LANGUAGES).find((one) => one !== language);
    put($('language'), LANGUAGES[other].language);
    $('language').lang = other;
    put($('label'), t('sale'));
    put($('skip'), t('skip'));
    $('steps').setAttribute('aria-label', t('steps'));
    ['step_enter', 'step_draw', 'step_claim', 'step_pay'].forEach((key, step) => put($(`step${step}`), t(key)));
    for (const unit of ['days', 'hours', 'minutes', 'seconds']) put($(`${unit}Name`), t(unit));
    put($('how'), t('how'));
    put($('howText'), t('how_text'));
    for (const name of ['commitment', 'pass', 'ticket', 'check']) put($(`${name}Name`), t(name));
    this.#phase = null;
  }

  /** `shopper` is the model, `now` the server's time, `check` of the draw or null. */
  show(shopper, now, check) {
    const { phase, sale, status, mine } = shopper;
    const words = wordsOf({ phase, sale, status, mine, busy: shopper.busy, notice: shopper.notice }, now, this.#language);
    put($('kicker'), words.kicker);
    put($('title'), words.title);
    put($('text'), words.text);
    put($('hint'), words.hint);
    put($('notice'), words.notice);
    $('stage').dataset.phase = phase;
    $('visual').dataset.shown = words.visual;
    this.#product(sale, words);
    this.#steps(words.step);
    this.#countdown(words);
    this.#line(words);
    this.#buttons(words);
    this.#draw(sale, mine, check);
    document.title = [['early', 'hold'].includes(phase) && words.left, sale?.name ?? say(this.#language, 'sale')].filter(Boolean).join(' · ');
    if (phase === this.#phase) return;
    // Who had the focus on a button that went away is led to what came.
    if (this.#phase && document.activeElement === document.body && this.#hadFocus) $('title').focus({ preventScroll: true });
    if (this.#phase) put($('hear'), `${words.kicker}. ${words.title}. ${words.text}`);
    this.#phase = phase;
    this.#sure = false;
  }

  #hadFocus = false;

  #product(sale, { gaps }) {
    if (!sale) return;
    put($('name'), sale.name);
    put($('price'), money(sale.price, this.#language));
    // A race has no draw: neither the step nor the proof.
    $('step1').hidden = sale.mode === 'race';
    document.querySelector('.fair').hidden = sale.mode === 'race';
    put($('units'), gaps.units ? say(this.#language, 'units', gaps) : '\u00a0');
  }

  #steps(step) {
    if (step === this.#step) return;
    this.#step = step;
    for (let one = 0; one < 4; one += 1) {
      const item = $(`step${one}`);
      item.dataset.is = step === null || one > step ? 'ahead' : one < step ? 'done' : 'now';
      if (one === step) item.setAttribute('aria-current', 'step');
      else item.removeAttribute('aria-current');
    }
  }

  #countdown({ visual, gaps }) {
    const known = gaps.left_ms !== undefined;
    if (visual === 'countdown') {
      const parts = known ? partsOf(gaps.left_ms) : {};
      for (const unit of ['days', 'hours', 'minutes', 'seconds']) {
        put($(unit), known ? String(parts[unit]).padStart(2, '0') : '–');
      }
      if (known) label($('countdown'), say(this.#language, 'opens_in', gaps));
    }
    const soon = visual === 'deadline' && gaps.left_ms < 60_000;
    $('stage').toggleAttribute('data-soon', soon);
    if (visual !== 'deadline') {
      this.#window = null;
      return;
    }
    this.#window ??= Math.max(gaps.left_ms, 1);
    put($('left'), gaps.left);
    label($('left').parentElement, say(this.#language, 'pay_within', gaps));
    $('meter').style.transform = `scaleX(${Math.max(gaps.left_ms, 0) / this.#window})`;
  }

  #window = null;

  #line({ visual, gaps }) {
    if (visual !== 'line') return;
    $('may').style.width = `${gaps.may * 100}%`;
    $('at').style.left = `${(gaps.at ?? 1) * 100}%`;
    put($('mayName'), gaps.served);
    put($('youName'), `${say(this.#language, 'you')}: ${gaps.place}`);
    label($('line'), `${say(this.#language, 'line', gaps)}; ${gaps.served}`);
  }

  #buttons({ button, second }) {
    this.#hadFocus = document.activeElement === $('main') || document.activeElement === $('second');
    const main = $('main');
    main.hidden = !button;
    if (button) {
      put(main, button.label);
      main.dataset.action = button.action;
      main.setAttribute('aria-disabled', String(!button.live));
      main.classList.toggle('quiet', Boolean(button.quiet));
    }
    const other = $('second');
    other.hidden = !second;
    if (second) {
      put(other, this.#sure ? second.sure : second.label);
      other.dataset.action = second.action;
    }
  }

  /** Giving back asks once more. */
  confirms() {
    this.#sure = !this.#sure;
    return !this.#sure;
  }

  #draw(sale, mine, check) {
    const t = (key) => say(this.#language, key);
    put($('commitment'), sale?.draw?.commitment ?? sale?.commitment ?? '–');
    put($('pass'), mine.pass_id ?? t('none'));
    put($('ticket'), mine.ticket === undefined ? t('none') : String(mine.ticket));
    put($('check'), verdictOf(check, this.#language));
  }
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function label(element, text) {
  if (element.getAttribute('aria-label') !== text) element.setAttribute('aria-label', text);
}
