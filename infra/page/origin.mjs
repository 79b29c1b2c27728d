// A call to the origin, and its answer even if it comes before the body is sent.
import { request as begin } from 'node:http';

// What is about a connection, and what this program says itself.
const HOP = new Set(['host', 'connection', 'keep-alive', 'transfer-encoding', 'content-length', 'accept-encoding', 'date', 'expect', 'upgrade']);

// An origin that refuses by the head alone answers at once and closes. Who is still
// writing then gets a broken connection in place of the answer, so a body that does
// not go out in one piece waits until it is asked for.
const ASK_FROM = 64 * 1024;

/** Sends a call to the URL; its status, headers and text. */
export function callOrigin(url, { method, headers, body }) {
  const sent = kept(headers);
  if (body?.length) sent['content-length'] = Buffer.byteLength(body);
  const asks = body?.length > ASK_FROM;
  if (asks) sent.expect = '100-continue';
  return new Promise((done, failed) => {
    const call = begin(url, { method, headers: sent });
    let answered = false;
    call.on('response', async (response) => {
      answered = true;
      try {
        const chunks = [];
        for await (const chunk of response) chunks.push(chunk);
        done({ status: response.statusCode, headers: kept(response.headers), body: Buffer.concat(chunks).toString() });
      } catch (error) {
        failed(error);
      }
      // The rest of a body that was refused half-way is of no use.
      if (!call.writableFinished) call.destroy();
    });
    // Once the answer is there, what becomes of the rest of the body is no fault.
    call.on('error', (error) => { if (!answered) failed(error); });
    if (asks) {
      call.on('continue', () => call.end(body));
      call.flushHeaders();
    } else {
      call.end(body);
    }
  });
}

function kept(headers) {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP.has(name)));
}
