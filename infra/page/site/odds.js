// What the chance is that a unit comes back to someone who waits.

/** Of a hundred units, so many are usually not paid and come back. */
export const RETURNED_PERCENT = 10;

/**
 * `ahead` wait in front, `units` are held: how many usually come back, and how
 * likely it is that more do than wait in front, in [0, 1].
 */
export function odds(ahead, units) {
  const share = RETURNED_PERCENT / 100;
  const expected = Math.max(Math.round(units * share), 1);
  const deviation = Math.sqrt(units * share * (1 - share));
  const chance = deviation === 0 ? 0 : above((ahead + 0.5 - units * share) / deviation);
  return { expected, chance };
}

/** The same in a word. */
export function likelihood(chance) {
  if (chance >= 0.8) return 'likely';
  return chance >= 0.2 ? 'possible' : 'unlikely';
}

// Of the normal distribution (Abramowitz and Stegun 26.2.17, to seven digits).
function above(z) {
  const t = 1 / (1 + 0.2316419 * Math.abs(z));
  const series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  const tail = Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI) * series;
  return z >= 0 ? tail : 1 - tail;
}
