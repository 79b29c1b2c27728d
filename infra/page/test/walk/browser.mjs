// Chromium by its own protocol over a pipe: no driver, nothing downloaded.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PROGRAMS = [process.env.CHROMIUM, 'chromium', 'chromium-browser', 'google-chrome'].filter(Boolean);
const WAIT_MS = Number(process.env.WAIT_S ?? 60) * 1_000;

export async function launch() {
  const program = PROGRAMS.find((name) => spawnSync(name, ['--version']).status === 0);
  if (!program) throw new Error('Chromium is missing: apt-get install chromium, or name one in CHROMIUM.');
  const profile = mkdtempSync(join(tmpdir(), 'page-'));
  const child = spawn(program, [
    '--headless=new', '--remote-debugging-pipe', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-extensions',
    '--disable-background-networking', '--disable-component-update', '--disable-background-timer-throttling',
    '--disable-renderer-backgrounding', '--disable-backgrounding-occluded-windows', '--hide-scrollbars', '--lang=en-IN',
    `--user-data-dir=${profile}`, 'about:blank',
  ], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
  const browser = new Browser(child, profile);
  await browser.send('Browser.getVersion');
  return browser;
}

class Browser {
  #child;
  #profile;
  #next = 1;
  #open = new Map();
  #sessions = new Map();
  #rest = '';

  constructor(child, profile) {
    this.#child = child;
    this.#profile = profile;
    child.stdio[4].setEncoding('utf8').on('data', (chunk) => {
      const parts = (this.#rest + chunk).split('\0');
      this.#rest = parts.pop();
      for (const part of parts) this.#receive(JSON.parse(part));
    });
  }

  send(method, params = {}, sessionId) {
    const id = this.#next++;
    this.#child.stdio[3].write(`${JSON.stringify({ id, method, params, ...(sessionId ? { sessionId } : {}) })}\0`);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method}: no answer`)), WAIT_MS);
      this.#open.set(id, { resolve, reject, timer, method });
    });
  }

  #receive({ id, result, error, method, params, sessionId }) {
    if (id === undefined) {
      this.#sessions.get(sessionId)?.(method, params);
      return;
    }
    const call = this.#open.get(id);
    this.#open.delete(id);
    clearTimeout(call.timer);
    if (error) call.reject(new Error(`${call.method}: ${error.message}`));
    else call.resolve(result);
  }

  /** A device of its own: nothing is shared with others. `skew_ms` is its date's error. */
  async device({ width = 390, height = 844, dark = false, reduced = false, skew_ms = 0, latency_ms = 0 } = {}) {
    const { browserContextId } = await this.send('Target.createBrowserContext');
    return new Device(this, browserContextId, { width, height, dark, reduced, skew_ms, latency_ms });
  }

  listen(sessionId, hear) {
    this.#sessions.set(sessionId, hear);
  }

  async close() {
    await this.send('Browser.close').catch(() => {});
    await new Promise((done) => { if (this.#child.exitCode === null) this.#child.once('exit', done); else done(); });
    rmSync(this.#profile, { recursive: true, force: true });
  }
}

class Device {
  constructor(browser, context, how) {
    Object.assign(this, { browser, context, how });
  }

  async tab(url) {
    const { targetId } = await this.browser.send('Target.createTarget', { url: 'about:blank', browserContextId: this.context });
    const { sessionId } = await this.browser.send('Target.attachToTarget', { targetId, flatten: true });
    const tab = new Tab(this.browser, sessionId);
    await tab.prepare(this.how);
    await tab.open(url);
    return tab;
  }
}

class Tab {
  weight = 0;
  errors = [];
  requests = [];

  constructor(browser, session) {
    this.send = (method, params) => browser.send(method, params, session);
    browser.listen(session, (method, params) => this.#hear(method, params));
  }

  #hear(method, params) {
    if (method === 'Network.loadingFinished') this.weight += params.encodedDataLength;
    if (method === 'Network.requestWillBeSent') this.requests.push(params.request.url);
    if (method === 'Runtime.exceptionThrown') this.errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === 'Log.entryAdded' && params.entry.level === 'error' && params.entry.source !== 'network') this.errors.push(params.entry.text);
  }

  async prepare({ width, height, dark, reduced, skew_ms, latency_ms }) {
    await Promise.all(['Page', 'Runtime', 'Network', 'Log'].map((domain) => this.send(`${domain}.enable`)));
    await this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 600 });
    await this.send('Emulation.setTimezoneOverride', { timezoneId: 'Asia/Kolkata' });
    await this.send('Emulation.setEmulatedMedia', { features: [
      { name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' },
      { name: 'prefers-reduced-motion', value: reduced ? 'reduce' : 'no-preference' },
    ] });
    if (latency_ms) {
      await this.send('Network.emulateNetworkConditions', { offline: false, latency: latency_ms, downloadThroughput: -1, uploadThroughput: -1 });
    }
    await this.send('Page.addScriptToEvaluateOnNewDocument', { source: `{
      const skew = ${skew_ms}, Real = Date;
      if (skew) {
        globalThis.Date = class extends Real { constructor(...given) { given.length ? super(...given) : super(Real.now() + skew); } };
        Date.now = () => Real.now() + skew;
      }
      // The largest burst, as Cumulative Layout Shift is defined: a second of rest ends one.
      globalThis.shifts = 0;
      const burst = { from: -Infinity, last: -Infinity, sum: 0 };
      new PerformanceObserver((list) => {
        for (const { hadRecentInput, startTime, value } of list.getEntries()) {
          if (hadRecentInput) continue;
          if (startTime - burst.last > 1_000 || startTime - burst.from > 5_000) Object.assign(burst, { from: startTime, sum: 0 });
          Object.assign(burst, { last: startTime, sum: burst.sum + value });
          shifts = Math.max(shifts, burst.sum);
        }
      })
        .observe({ type: 'layout-shift', buffered: true });
    }` });
  }

  async open(url) {
    await this.send('Page.navigate', { url });
  }

  async reload() {
    await this.send('Page.reload');
  }

  async run(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  text(id) {
    return this.run(`document.getElementById(${JSON.stringify(id)})?.textContent ?? null`);
  }

  phase() {
    return this.run('document.getElementById("stage")?.dataset.phase ?? null').catch(() => null);
  }

  /** Waits until the page is in one of these phases. */
  async until(...phases) {
    return this.wait(async () => phases.includes(await this.phase()), phases.join(' or '));
  }

  async wait(holds, what, within_ms = WAIT_MS) {
    for (const end = Date.now() + within_ms; ;) {
      if (await holds()) return;
      if (Date.now() > end) throw new Error(`waited for ${what}; the page is ${await this.phase()}: ${await this.text('title')} ${await this.text('notice')}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  async key(key, code = key, windowsVirtualKeyCode = { Tab: 9, Enter: 13 }[key]) {
    const text = key === 'Enter' ? { text: '\r' } : {};
    await this.send('Input.dispatchKeyEvent', { type: 'keyDown', key, code, windowsVirtualKeyCode, ...text });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', key, code, windowsVirtualKeyCode });
  }

  async click(id) {
    await this.run(`document.getElementById(${JSON.stringify(id)}).click()`);
  }

  async screenshot(full = true) {
    // A tab behind another paints nothing.
    await this.send('Page.bringToFront');
    const { data } = await this.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: full });
    return Buffer.from(data, 'base64');
  }
}
