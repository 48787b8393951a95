// Small charts of numbers, each with a text for screen readers.

import { h, svg } from "../lib/dom.js";

/** A row of bars, one for each hour, and beside it the height of the tallest one. `label` describes them. */
export function spark(hours, label, { width = 120, height = 24 } = {}) {
  const most = Math.max(0, ...hours);
  const step = width / hours.length;
  const bars = hours.map((number, at) => {
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
  const sum = hours.reduce((all, number) => all + number, 0);
  const counts = most ? `${sum.toLocaleString()} in all, at most ${most.toLocaleString()} in an hour` : "none";
  const story = `${label} in the last ${hours.length} hours, by hour: ${counts}`;
  const attributes = { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": story };
  return h(
    "span.spark",
    {},
    svg("svg", attributes, svg("title", {}, story), bars),
    h("span.scale", { "aria-hidden": "true" }, most ? `peak ${most.toLocaleString()}/h` : "none"),
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
