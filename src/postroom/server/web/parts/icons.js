// Icons on a grid of 16. Screen readers ignore them: the control around an icon has a name.

import { svg } from "../lib/dom.js";

const PATHS = {
  inbox: "M2 9.5 4 3h8l2 6.5V13H2zM2 9.5h3.5L6.5 11h3l1-1.5H14",
  notices: "M8 2.5a3.5 3.5 0 0 0-3.5 3.5v3L3 11.5h10L11.5 9V6A3.5 3.5 0 0 0 8 2.5zM6.5 13.5h3",
  threads: "M2.5 3.5h11v7h-6l-3 2.5v-2.5h-2z",
  tasks: "M2.5 4 4 5.5 6.5 2.5M2.5 11 4 12.5 6.5 9.5M9 4.5h5M9 11.5h5",
  runs: "M2 4h6M5 8h8M3 12h5",
  mailboxes: "M2 4h12v8.5H2zM2 4.5 8 9l6-4.5",
  queues: "M2.5 3h11M2.5 6.5h11M2.5 10h11M2.5 13.5h6",
  agents: "M8 2v2M4 4.5h8V10H4zM6.3 7v.5M9.7 7v.5M2.5 13.5c1-2 3-3 5.5-3s4.5 1 5.5 3",
  settings: "M2 5h7M13 5h1M11 3.5v3M2 11h1M7 11h7M5 9.5v3",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5 14 14",
  trash: "M3 4.5h10M6.5 4V2.5h3V4M4.5 4.5l.5 9h6l.5-9M7 7v4M9 7v4",
  unread: "M2 4.5h9M2 4.5V12h12V7.5M2 5l6 4 2.5-1.7M13 2.5a1.5 1.5 0 1 0 .01 0",
  back: "M9.5 3 4.5 8l5 5",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10.5h3",
  send: "M2.5 8 13.5 3l-3 10.5-3-4zM7.5 9.5 13.5 3",
  pin: "M6 2.5h4l-.5 4 2 2.5h-7l2-2.5zM8 9v4.5",
  snooze: "M8 4v4l2.5 1.5M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11z",
  questions: "M5.5 6A2.5 2.5 0 1 1 8 8.5V10M8 12.5v.5M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13z",
  compose: "M3 13l.7-3L11 2.7a1.2 1.2 0 0 1 1.7 0l.6.6a1.2 1.2 0 0 1 0 1.7L6 12.3zM3 13l3-.7",
  mute: "M3 6.5h2L8.5 3.5v9L5 9.5H3zM11 6.5l3 3M14 6.5l-3 3",
  copy: "M5.5 5.5h8v8h-8zM2.5 10.5v-8h8",
  fold: "M2.5 3h11v10h-11zM6 3v10M9 6.5 10.5 8 9 9.5",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  checks: "M1.5 8.5 5 12 10.5 5M8.5 11.5 9 12l5.5-7",
  check: "M3 8.5 6.5 12 13 4.5",
  close: "M4 4l8 8M12 4l-8 8",
  unverified: "M8 1.8 13 3.6v4c0 3.2-2 5.4-5 6.6-3-1.2-5-3.4-5-6.6v-4zM8 5v3.5M8 10.7v.1",
  keyboard: "M1.5 4h13v8h-13zM4 6.5h.5M7 6.5h.5M10 6.5h.5M5 9.5h6",
};

export function icon(name) {
  const attributes = { viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" };
  return svg("svg.icon", attributes, svg("path", { d: PATHS[name] ?? "" }));
}
