// A time scale: the pixel position of an instant, and the instants with a label. Pure arithmetic, nothing is drawn here.
// Long idle stretches are folded. Otherwise a night would take most of the width.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [1, 2, 5, 10, 15, 30]
  .map((n) => n * SECOND)
  .concat(
    [1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
    [1, 2, 3, 6, 12].map((n) => n * HOUR),
    [1, 2, 7, 14, 30, 90, 365].map((n) => n * DAY),
  );
const FOLD = 52; // pixels that a folded stretch takes
export const FOLDABLE = 5 * MINUTE;
const MOST_FOLDS = 6;
const APART = 84; // pixels between two named instants, at least

/** A scale of `width` pixels. `idle` lists the stretches [from, to] that may be folded. */
export function timescale(from, to, width, idle = []) {
  const end = Math.max(to, from + SECOND);
  const folds = folded(end - from, idle);
  const drawn = end - from - folds.reduce((sum, fold) => sum + fold.to - fold.from, 0);
  const rate = (width - folds.length * FOLD) / drawn; // pixels a millisecond
  const pieces = cut(from, end, folds, rate);
  return { from, to: end, width, rate, pieces, place: (instant) => place(pieces, instant) };
}

/** The longest idle stretches, if each is at least twice as long as all that is left without them. */
function folded(span, idle) {
  const longest = idle
    .map(([from, to]) => ({ from, to }))
    .filter(({ from, to }) => to - from >= FOLDABLE)
    .sort((a, b) => b.to - b.from - (a.to - a.from))
    .slice(0, MOST_FOLDS);
  for (let count = longest.length; count > 0; count--) {
    const chosen = longest.slice(0, count);
    const rest = span - chosen.reduce((sum, { from, to }) => sum + to - from, 0);
    const least = chosen.at(-1);
    if (least.to - least.from >= 2 * rest) return margins(chosen, rest).sort((a, b) => a.from - b.from);
  }
  return [];
}

/** Keep a margin at both ends of a folded stretch, so that marks there do not touch the fold. */
function margins(folds, rest) {
  const margin = Math.max(rest * 0.03, SECOND);
  return folds.map(({ from, to }) => ({ from: from + margin, to: to - margin }));
}

function cut(from, end, folds, rate) {
  const pieces = [];
  let [at, x] = [from, 0];
  const add = (until, wide, fold) => {
    pieces.push({ from: at, to: until, x, wide, fold });
    [at, x] = [until, x + wide];
  };
  for (const fold of folds) {
    add(fold.from, (fold.from - at) * rate, false);
    add(fold.to, FOLD, true);
  }
  add(end, (end - at) * rate, false);
  return pieces;
}

function place(pieces, instant) {
  const piece = pieces.find(({ to }) => instant <= to) ?? pieces.at(-1);
  const part = piece.to > piece.from ? (instant - piece.from) / (piece.to - piece.from) : 0;
  return piece.x + Math.max(0, Math.min(1, part)) * piece.wide;
}

/** The instants with a label, at round times of the day: [{at, x, step}]. */
export function ticks(scale) {
  const step = STEPS.find((each) => each * scale.rate >= APART) ?? STEPS.at(-1);
  return scale.pieces
    .filter(({ fold }) => !fold)
    .flatMap(({ from, to }) => {
      const midnight = new Date(from).setHours(0, 0, 0, 0);
      const first = midnight + Math.ceil((from - midnight) / step) * step;
      const count = Math.max(0, Math.floor((to - first) / step) + 1);
      return Array.from({ length: count }, (_, index) => ({ at: first + index * step, x: scale.place(first + index * step), step }));
    });
}
