// Requests at the origin against the size of a crowd, as a picture.

const [WIDTH, HEIGHT] = [760, 430];
const [LEFT, RIGHT, TOP, BOTTOM] = [70, 36, 66, 58];
const DECADES = [4, 7];

const short = (number) => (number >= 1e6 ? `${number / 1e6} M` : number.toLocaleString('en'));

/** `results` as crowd.mjs writes them; `most` is drawn as a line. */
export function chart(results, most) {
  const top = Math.ceil(Math.max(most, ...results.map(({ entries, claims }) => entries + claims)) / 5_000 + 0.2) * 5_000;
  const x = (crowd) => LEFT + (Math.log10(crowd) - DECADES[0]) / (DECADES[1] - DECADES[0]) * (WIDTH - LEFT - RIGHT);
  const y = (requests) => HEIGHT - BOTTOM - requests / top * (HEIGHT - TOP - BOTTOM);
  const at = (number) => number.toFixed(1);
  const points = (of) => results.map((one) => `${at(x(one.crowd))},${at(y(of(one)))}`).join(' ');
  const all = ({ entries, claims }) => entries + claims;
  const rows = [];
  for (let requests = 0; requests <= top; requests += 5_000) {
    rows.push(`<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at(y(requests))}" y2="${at(y(requests))}"/>`,
      `<text x="${LEFT - 10}" y="${at(y(requests) + 4)}" text-anchor="end">${requests.toLocaleString('en')}</text>`);
  }
  for (let decade = DECADES[0]; decade <= DECADES[1]; decade += 1) {
    rows.push(`<text x="${at(x(10 ** decade))}" y="${HEIGHT - BOTTOM + 22}" text-anchor="middle">${short(10 ** decade)}</text>`);
  }
  const marks = results.map((one) => `<circle cx="${at(x(one.crowd))}" cy="${at(y(all(one)))}" r="4.5"/>`
    + `<text class="value" x="${at(x(one.crowd))}" y="${at(y(all(one)) + 20)}" text-anchor="middle">${all(one).toLocaleString('en')}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="13">
<title>Requests at the origin against the size of the crowd</title>
<style>
  text { fill: #57534e } .name { font-size: 17px; font-weight: 600; fill: #1c1917 } .value { font-weight: 600; fill: #1d4ed8 }
  rect { fill: #fff } .grid { stroke: #e7e5e4 } .most { stroke: #b91c1c; stroke-dasharray: 6 5; stroke-width: 1.5 } .limit { fill: #b91c1c }
  polyline { fill: none; stroke-width: 2; stroke: #1d4ed8 } .claims { stroke: #a8a29e } circle { fill: #1d4ed8 }
</style>
<rect width="${WIDTH}" height="${HEIGHT}"/>
<text class="name" x="${LEFT}" y="28">What reaches the origin, however many come</text>
<text x="${LEFT}" y="48">requests at the origin, of a crowd's taps and claims; 10,000 units</text>
${rows.join('\n')}
<line class="most" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at(y(most))}" y2="${at(y(most))}"/>
<text class="limit" x="${WIDTH - RIGHT}" y="${at(y(most) - 7)}" text-anchor="end">1.2 × units + 5,000</text>
<polyline class="claims" points="${points(({ claims }) => claims)}"/>
<text x="${WIDTH - RIGHT}" y="${at(y(results.at(-1).claims) + 18)}" text-anchor="end">of which claims</text>
<polyline points="${points(all)}"/>
${marks.join('\n')}
<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 12}" text-anchor="middle">shoppers</text>
</svg>
`;
}
