// A front that asks the origin too wherever the edge answers by itself, and
// compares the two answers.
import { Front } from '../../front.mjs';

// What the gateway adds to each answer.
const OWN = new Set(['apigw-requestid', 'vary']);

export class Compared extends Front {
  /** Differences between edge and origin. */
  differences = [];
  /** Answers of the edge, by their error or "ticket". */
  answered = {};

  /** Answers that were a moment behind the origin's: who had just been admitted. */
  behind = 0;
  #open = new Set();

  async call(call) {
    const edge = await this.atEdge(call);
    const origin = await this.atOrigin(call);
    if (!edge) return origin;
    if (told(edge) === told(origin) || JSON.parse(edge.body).error !== 'not_admitted') {
      this.compare(call, edge, origin);
    } else {
      const checked = this.#again(call, edge, origin).finally(() => this.#open.delete(checked));
      this.#open.add(checked);
    }
    return edge;
  }

  /** Waits for everything that is to be compared. */
  async settled() {
    await Promise.all(this.#open);
  }

  // The publisher tells the edge at most once a second.
  async #again(call, edge, origin) {
    await new Promise((done) => setTimeout(done, 3_000));
    if (await this.atEdge(call)) this.compare(call, edge, origin);
    else this.behind += 1;
  }

  /**
   * Notes whether the two are the same, byte for byte. False if the origin could
   * not answer: the machine may be busy.
   */
  compare({ method, path }, edge, origin) {
    if (origin.status === 503 && origin.body.includes('"error":"unavailable"')) return false;
    const what = edge.status < 300 ? 'ticket' : JSON.parse(edge.body).error;
    this.answered[what] = (this.answered[what] ?? 0) + 1;
    if (told(edge) !== told(origin)) this.differences.push(`${method} ${path}\n  edge   ${told(edge)}\n  origin ${told(origin)}`);
    return true;
  }
}

function told(answer) {
  return JSON.stringify([answer.status, Object.entries(answer.headers).filter(([name]) => !OWN.has(name)).sort(), whatIsSaid(answer)]);
}

// The origin signs an entry token where the edge gives a receipt, and does not
// say of an entry that is to be counted that it is not counted yet.
function whatIsSaid({ status, body }) {
  return status < 300 ? body.replace(/"entry_token":"[^"]+"/, '"entry_token":"…"').replace(',"counted":false', '') : body;
}
