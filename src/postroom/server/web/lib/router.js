// Routing: an address names a room, and the item that is open in it. Links inside the page change the address without a reload.

let act = () => {};

/** The room and the item that the address names: {room, id}. */
export function here() {
  const [room = "", ...rest] = location.pathname.slice(1).split("/");
  return { room: room || "inbox", id: rest.length ? decoded(rest.join("/")) : null };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a room and an item. */
export function address(room, id = null) {
  if (room === "inbox" && id === null) return "/";
  return `/${room}${id === null ? "" : `/${encodeURIComponent(id)}`}`;
}

export function go(path, { replace = false } = {}) {
  if (path !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"]({}, "", path);
  act(here());
}

/** The query of the address. */
export const query = () => new URLSearchParams(location.search);

/** Change what the address says behind its path, without another entry in the browser's history. */
export function setQuery(parameters) {
  const text = String(parameters);
  history.replaceState(history.state, "", location.pathname + (text ? `?${text}` : ""));
}

/** Call `change` with the current place, and with every later one. */
export function follow(change) {
  act = change;
  window.addEventListener("popstate", () => act(here()));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !plain || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (link.pathname.startsWith("/api/")) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
  act(here());
}
