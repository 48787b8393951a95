// A view of a room that stays up to date: it loads its data, shows errors, and is patched in place after events.
// It has at most one request open at a time.

import { fill, h } from "../lib/dom.js";
import { oneAtATime } from "../lib/once.js";
import { loading, trouble } from "../parts/state.js";
import { patch } from "./patch.js";

const REST = 400; // milliseconds between two questions; four times as long as the answer took, if that is more
const AGAIN = 30_000; // how often words like "5 minutes ago" are said anew
const MOST = 20;
const remembered = new Map(); // name → what was shown, and how far it was scrolled, for whoever comes back

export class View {
  /**
   * name, title: of the view. ask(signal) returns the data, view(data) the elements, concerns(event) whether to load again.
   * above(): the link back, shown from the start. ghosts(): placeholders while loading. drawn(view): called after each drawing.
   * every: the interval of redrawing. look: the interval of reloading, for data without events.
   */
  constructor(main, { every = AGAIN, look = 0, ...given }) {
    const usual = { above: () => null, concerns: () => false, ghosts: () => loading(), drawn: () => {} };
    Object.assign(this, usual, given, { main });
    this.control = new AbortController();
    this.box = h("div.room", { "data-room": this.name });
    this.data = null;
    this.wrong = null;
    this.whole = false; // whether what is in the box came from view()
    this.again = oneAtATime(() => this.once());
    this.timers = [every && setInterval(() => this.draw(), every), look && setInterval(() => document.hidden || this.again(), look)];
    this.begin();
  }

  begin() {
    fill(this.main, this.box);
    if (document.activeElement === document.body) this.main.focus({ preventScroll: true });
    const before = remembered.get(this.name);
    this.data = before?.data ?? null;
    this.draw();
    if (before) this.main.scrollTop = before.scrolled;
    this.again();
  }

  /** Load, show, and pause: a slow server is asked less often. */
  async once() {
    if (this.control.signal.aborted) return;
    const begun = performance.now();
    try {
      this.data = await this.ask(this.control.signal);
      this.wrong = null;
    } catch (error) {
      this.wrong = error;
    }
    this.draw();
    await new Promise((rested) => setTimeout(rested, Math.max(REST, 4 * (performance.now() - begun))));
  }

  draw() {
    if (this.control.signal.aborted) return;
    const shown = this.data === null ? null : this.attempt();
    const whole = shown !== null;
    const content = whole ? [shown, this.stale()] : [this.above(), h("header", {}, h("h1", {}, this.title)), this.instead()];
    const fresh = h("div.room", { "data-room": this.name, "aria-busy": whole || this.wrong ? null : "true" }, content);
    if (whole === this.whole) patch(this.box, fresh);
    else fill(this.box, [...fresh.childNodes]);
    this.box.ariaBusy = fresh.ariaBusy;
    this.whole = whole;
    this.drawn(this);
  }

  /** The elements of the data, or null if view() throws, which is shown as an error. */
  attempt() {
    try {
      return this.view(this.data);
    } catch (error) {
      reportError(error);
      this.wrong = error;
      return null;
    }
  }

  instead() {
    return this.wrong ? trouble(this.wrong, () => this.again()) : this.ghosts();
  }

  /** Show that the data may be old, and keep it on the page. */
  stale() {
    if (!this.wrong) return null;
    return h(
      "p.stale",
      { role: "status", "data-key": "stale" },
      `Not up to date: ${this.wrong.message} `,
      h("button.link", { type: "button", onclick: () => this.again() }, "Try again"),
    );
  }

  /** Handle events. Without events, load again. */
  changed(events) {
    if (!events.length || events.some((event) => this.concerns(event))) this.again();
  }

  leave() {
    remembered.delete(this.name);
    if (this.data !== null) remembered.set(this.name, { data: this.data, scrolled: this.main.scrollTop });
    if (remembered.size > MOST) remembered.delete(remembered.keys().next().value);
    this.control.abort();
    for (const timer of this.timers) clearInterval(timer);
  }
}

const last = new Map(); // selector → the address that had the focus, for whoever comes back

/** Bind j and k for a list of links: they move the focus, so that Enter opens the focused link. */
export function moving(box, selector) {
  const step = (by) => {
    const all = [...box.querySelectorAll(selector)];
    const from = all.indexOf(box.contains(document.activeElement) ? document.activeElement.closest(selector) : null);
    const before = from >= 0 ? from : all.findIndex((element) => element.getAttribute("href") === last.get(selector));
    const next = all[Math.min(all.length - 1, Math.max(0, before < 0 ? 0 : before + by))];
    if (!next) return false;
    last.set(selector, next.getAttribute("href"));
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  return { j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1) };
}
