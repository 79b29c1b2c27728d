// What a client takes: `Accept-Encoding` (RFC 9110, 12.5.3).

/** Whether gzip may be sent. Who says nothing of encodings is sent none. */
export function takesGzip(header = '') {
  const weights = new Map();
  for (const part of header.toLowerCase().split(',')) {
    const [coding, ...parameters] = part.split(';').map((text) => text.trim());
    const q = parameters.find((text) => text.startsWith('q='));
    weights.set(coding, q === undefined ? 1 : Number(q.slice(2)));
  }
  // What is named counts, whatever the rest of them weighs.
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0;
}
