// Small charts of numbers, each with a text for screen readers.

import { svg } from "../lib/dom.js";

/** A row of bars, one for each number. `label` describes them. */
export function spark(numbers, label, { width = 120, height = 24 } = {}) {
  const most = Math.max(1, ...numbers);
  const step = width / numbers.length;
  const bars = numbers.map((number, at) => {
    const tall = number ? Math.max(2, (number / most) * height) : 1;
    return svg("rect", {
      x: at * step + 0.5,
      y: height - tall,
      width: Math.max(1, step - 1.5),
      height: tall,
      rx: 0.75,
      class: number ? "some" : "none",
    });
  });
  const story = `${label}: ${numbers.reduce((sum, number) => sum + number, 0)} in all, ${most === 1 && !numbers.some(Boolean) ? 0 : most} at most at once`;
  return svg(
    "svg.spark",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": story },
    svg("title", {}, story),
    bars,
  );
}

/** One bar in parts: [[name, number], …], each part with its name as its class. */
export function parts(counts, label, { width = 160, height = 8 } = {}) {
  const all = counts.reduce((sum, [, number]) => sum + number, 0);
  let x = 0;
  const pieces = counts
    .filter(([, number]) => number)
    .map(([name, number]) => {
      const wide = (number / all) * width;
      const piece = svg("rect", { x, y: 0, width: Math.max(1, wide - 1), height, "data-state": name });
      x += wide;
      return piece;
    });
  const story = `${label}: ${counts.map(([name, number]) => `${number} ${name.replace("_", " ")}`).join(", ")}`;
  return svg(
    "svg.parts",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": story },
    svg("title", {}, story),
    pieces,
  );
}
