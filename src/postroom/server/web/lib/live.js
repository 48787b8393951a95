// Live events. One tab holds the connection and forwards events to the other tabs: a browser opens few connections to one host.
// Events are numbered, so that another tab can resume. Every 20 seconds the page looks by itself: that heals what a lost answer left out.

import { proof } from "./key.js";

const SILENCE = 40_000; // the server says something every 15 seconds
const LOOK_EVERY = 20_000;
const GATHER = 10; // milliseconds: what comes together is told together
const PAUSES = [250, 500, 1000, 2000, 4000];

/** Follow events after `after`. Calls told(events), state("connecting" | "live" | "away"), look() every 20 seconds, and out() when the session ended. */
export function listen({ after, told, state, look, out }) {
  const channel = new BroadcastChannel("postroom.live");
  let last = after;
  let leading = false;
  let known = "";
  let gathered = [];

  function take(events) {
    const fresh = events.filter((event) => event.event_id > last);
    if (!fresh.length) return;
    last = fresh.at(-1).event_id;
    if (!gathered.length) setTimeout(() => told(gathered.splice(0)), GATHER);
    gathered.push(...fresh);
  }

  function become(now) {
    if (now === known) return;
    known = now;
    state(now);
    if (leading) channel.postMessage({ state: now });
  }

  channel.onmessage = ({ data }) => {
    if (data.hello) return leading && channel.postMessage({ state: known });
    if (leading) return;
    if (data.out) out();
    if (data.events) take(data.events);
    if (data.state) become(data.state);
  };
  setInterval(() => document.hidden || look(), LOOK_EVERY);
  become("connecting");
  channel.postMessage({ hello: true });

  const lead = async () => {
    leading = true;
    await new Stream({
      from: () => last,
      heard: (event) => {
        channel.postMessage({ events: [event] });
        take([event]);
      },
      become,
      out: () => {
        channel.postMessage({ out: true });
        out();
      },
      lost: () => {
        last = 0; // another store is behind this address: begin anew
        location.reload();
      },
    }).run();
  };
  if (navigator.locks) navigator.locks.request("postroom.live", lead);
  else lead(); // only where the page is not trusted by the browser: each tab for itself
}

class Stream {
  constructor({ from, heard, become, out, lost }) {
    Object.assign(this, { from, heard, become, out, lost, over: false });
    this.hurry = () => {};
    window.addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.hurry());
  }

  /** Connect, read, and connect again, while the page is open and the session is valid. */
  async run() {
    for (let tries = 0; !this.over; tries++) {
      const answered = await this.once().catch(() => false);
      if (this.over) return this.out();
      if (answered) tries = 0;
      else this.become("away");
      await this.pause(PAUSES[Math.min(tries, PAUSES.length - 1)] * (0.75 + Math.random() / 2));
    }
  }

  pause(milliseconds) {
    return new Promise((done) => {
      const timer = setTimeout(done, milliseconds);
      this.hurry = () => {
        clearTimeout(timer);
        done();
      };
    });
  }

  /** Read one connection to its end. Return whether it was established. */
  async once() {
    const control = new AbortController();
    let watch = setTimeout(() => control.abort(), SILENCE);
    try {
      const response = await fetch(`/api/events?after=${this.from()}`, { headers: proof(), signal: control.signal, cache: "no-store" });
      if (response.status === 400 || response.status === 410) this.lost();
      this.over = response.status === 401;
      if (!response.ok) return false;
      this.become("live");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const lines = new Lines((data) => this.heard(data));
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return true;
        clearTimeout(watch);
        watch = setTimeout(() => control.abort(), SILENCE);
        lines.push(value);
      }
    } catch {
      return false;
    } finally {
      clearTimeout(watch);
      control.abort();
    }
  }
}

/** Parse Server-Sent Events from pieces of text. An event ends with an empty line. Only its data lines are used. */
class Lines {
  constructor(heard) {
    this.heard = heard;
    this.rest = "";
  }

  push(piece) {
    const blocks = (this.rest + piece).split("\n\n");
    this.rest = blocks.pop();
    for (const block of blocks) {
      const data = block
        .split("\n")
        .filter((line) => line.startsWith("data: "))
        .map((line) => line.slice(6));
      const event = data.length ? JSON.parse(data.join("\n")) : {};
      if (event.event_id) this.heard(event);
    }
  }
}
