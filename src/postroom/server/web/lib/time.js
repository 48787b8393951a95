// Formatting of times. Functions take milliseconds since 1970. when() parses the server's stamps.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const clockFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayFormat = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const dateFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const yearFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long", year: "numeric" });
const fullFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

/** An instant as the server writes it, in milliseconds. */
export const when = (stamp) => (typeof stamp === "number" ? stamp : Date.parse(stamp));

function midnight(instant) {
  return new Date(instant).setHours(0, 0, 0, 0);
}

/** The day that an entry is listed under: "Today", "Yesterday", "Monday 9 November", "3 March 2025". */
export function day(instant, now = Date.now()) {
  const days = Math.round((midnight(now) - midnight(instant)) / DAY);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  return (new Date(instant).getFullYear() === new Date(now).getFullYear() ? dayFormat : yearFormat).format(instant);
}

/** Short, for a row: "now", "5m", "14:02", "9 Nov". */
export function short(instant, now = Date.now()) {
  const age = now - instant;
  if (age < MINUTE) return "now";
  if (age < HOUR) return `${Math.floor(age / MINUTE)}m`;
  return midnight(instant) === midnight(now) ? clockFormat.format(instant) : dateFormat.format(instant);
}

/** In a sentence: "just now", "5 minutes ago", "2 hours ago", "on 9 Nov". */
export function ago(instant, now = Date.now()) {
  const age = now - instant;
  if (age < MINUTE) return "just now";
  if (age < DAY) return `${length(age)} ago`;
  return `on ${dateFormat.format(instant)}`;
}

/** The time of day, and the date if it was not today. */
export function clock(instant, now = Date.now()) {
  const time = clockFormat.format(instant);
  return midnight(instant) === midnight(now) ? time : `${dateFormat.format(instant)}, ${time}`;
}

export const full = (instant) => fullFormat.format(instant);

/** How long something takes: "40 seconds", "5 minutes", "2 hours", "3 days". */
export function length(span) {
  const [count, unit] =
    span < MINUTE
      ? [span / 1000, "second"]
      : span < HOUR
        ? [span / MINUTE, "minute"]
        : span < DAY
          ? [span / HOUR, "hour"]
          : [span / DAY, "day"];
  const whole = Math.max(0, Math.floor(count));
  return `${whole} ${unit}${whole === 1 ? "" : "s"}`;
}

/** Counting down: "4:59", "1:02:03", "2 days". */
export function left(span) {
  if (span >= 2 * DAY) return length(span);
  const seconds = Math.max(0, Math.ceil(span / 1000));
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const tail = `${String(seconds % 60).padStart(2, "0")}`;
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${tail}` : `${minutes}:${tail}`;
}

/** Call act every second while element is in the page, and once now. */
export function everySecond(element, act) {
  let seen = false;
  const tick = () => {
    seen ||= element.isConnected;
    if (seen && !element.isConnected) return clearInterval(timer);
    act();
  };
  const timer = setInterval(tick, 1000);
  act();
  return element;
}
