// The changes of a document since it was pushed or since this person last read it: words inside the text for prose, lines for code.

import { h } from "../lib/dom.js";

const NAMES = { "+": "added", "-": "removed", "@": "place", " ": "same" };

/** The changed lines of a document, with what they are compared with: a `name` of differencesOf(). */
export function difference({ kind }, { name, lines }) {
  const prose = kind === "markdown" || kind === "text";
  const shown = prose ? merged(lines) : lines.map(codeLine);
  return h(prose ? "div.diff.prose" : "pre.diff", { tabindex: "0", "aria-label": `What changed ${name}` }, shown);
}

/** The versions to compare with: first the text that this person last read, then the pushed text if it differs. */
export function differencesOf({ readDiff, diff }) {
  const read = readDiff && { name: "since you last read it", lines: readDiff };
  const pushed = diff && { name: "since it was pushed", lines: diff };
  if (read && pushed && JSON.stringify(readDiff) === JSON.stringify(diff)) return [read];
  return [read, pushed].filter(Boolean);
}

function codeLine({ op, text, parts }) {
  if (op === "@") return place(text);
  return h(`span.${NAMES[op]}`, {}, `${op} `, parts ? marked(parts, op === "+" ? "ins" : "del") : text, "\n");
}

const place = (text) => h("span.place", {}, `Around line ${/\+(\d+)/.exec(text)?.[1] ?? "1"}`, "\n");
const marked = (parts, tag) => parts.map(([text, changed]) => (changed ? h(tag, {}, text) : text));

/** Prose: a line that was replaced is one line, with what went and what came. */
function merged(lines) {
  const removed = lines.filter((line) => line.op === "-" && line.parts);
  const result = [];
  let next = 0;
  for (const line of lines) {
    if (line.op === "-" && line.parts) continue;
    if (line.op === "@") result.push(place(line.text));
    else if (line.op === "+" && line.parts) result.push(h("p", { dir: "auto" }, woven(removed[next++].parts, line.parts)));
    else if (line.op === " ") result.push(h("p.same", { dir: "auto" }, line.text));
    else result.push(h("p", { dir: "auto" }, h(line.op === "+" ? "ins" : "del", {}, line.text)));
  }
  return result;
}

/** Both sides of a line: the words that stayed once, those that went and came where they stood. */
function woven(before, now) {
  const steps = []; // [what went, what came, what stayed]
  let [left, right] = [0, 0];
  while (left < before.length || right < now.length) {
    const went = before[left]?.[1] ? before[left++][0] : "";
    const came = now[right]?.[1] ? now[right++][0] : "";
    steps.push([went, came, went || came ? "" : (now[right++] ?? before[left])[0]]);
    if (!went && !came) left++;
  }
  return joined(steps).map(([went, came, stayed]) => [went && h("del", {}, went), came && h("ins", {}, came), stayed]);
}

/** Changes that only spaces part are one: "a week" became "two weeks", not each word another. */
function joined(steps) {
  const out = [];
  for (const step of steps) {
    const [last, space] = [out.at(-2), out.at(-1)];
    const apart = last && !last[2] && space[2] && !space[2].trim();
    if (apart && !step[2] && last[0] && last[1] && step[0] && step[1])
      out.splice(-2, 2, [last[0] + space[2] + step[0], last[1] + space[2] + step[1], ""]);
    else out.push(step);
  }
  return out;
}
