// Documents as they are in the workspace now: rendered by the server, and compared with the pushed text.

import { get, getBlob } from "../lib/api.js";
import { fill, h, safe } from "../lib/dom.js";
import { icon } from "../parts/icons.js";
import { failed } from "../parts/toast.js";

const address = (entry, path) =>
  `/api/workspaces/${encodeURIComponent(entry.workspaceId)}/file?${new URLSearchParams({ path, entry: entry.id })}`;

/** A section for one document of an entry, and look(), which loads it again and updates what changed. */
export function documentOf(entry, path) {
  const body = h("div.content", {}, h("div.ghost.block"));
  const state = h("span.state");
  const head = h("header", {}, icon("file"), h("h2", {}, path), state);
  const element = h("section.doc", { "data-path": path, "aria-label": path }, head, body);
  let shown = "";
  const look = async () => {
    let file;
    try {
      file = await get(address(entry, path));
    } catch (error) {
      file = { refused: error.code === "away" ? null : [error.message, error.hint] };
      if (!file.refused) return;
    }
    const now = JSON.stringify(file);
    if (now === shown) return;
    shown = now;
    fill(body, contents(file));
    fill(state, about(file, body));
  };
  return { element, look };
}

function contents(file) {
  if (file.refused) return h("p.soft", {}, file.refused.filter(Boolean).join(" "));
  if (file.gone) return h("p.soft", {}, "The file is gone. It was there when this was pushed.");
  if (file.kind === "image") return picture(file);
  if (file.html === null) return h("p", {}, downloader("button", file), h("span.soft", {}, ` ${size(file.size)}`));
  const cut =
    file.truncated && h("p.soft", {}, "Only the beginning is shown. ", downloader("button.link", file), ` all ${size(file.size)}.`);
  return [safe(`div.${file.kind === "markdown" ? "markdown" : "source"}`, file.html), cut];
}

// A browser sends no key with a link or a picture, so the page fetches both itself.

function picture(file) {
  const image = h("img", { alt: `The picture ${file.path}` });
  getBlob(file.download).then(
    (blob) => (image.src = window.URL.createObjectURL(blob)),
    (error) => failed("The picture was not loaded.", error),
  );
  return image;
}

function downloader(kind, file) {
  const button = h(kind, { type: "button" }, "Download");
  button.addEventListener("click", () =>
    getBlob(file.download).then(
      (blob) => save(blob, file.path),
      (error) => failed("The file was not downloaded.", error),
    ),
  );
  return button;
}

function save(blob, path) {
  const url = window.URL.createObjectURL(blob);
  h("a", { href: url, download: path.split("/").at(-1) }).click();
  setTimeout(() => window.URL.revokeObjectURL(url), 60_000); // by then the browser has read it
}

function about(file, body) {
  if (file.refused) return null;
  if (file.gone) return h("span.badge", { "data-tone": "bad" }, "The file is gone");
  if (!file.changed) return null;
  return [h("span.badge", { "data-tone": "warn" }, "Changed since it was pushed"), file.diff && switcher(file, body)];
}

function switcher(file, body) {
  const button = h("button.link", { type: "button", "aria-expanded": "false" }, "Show the difference");
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") === "false";
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "Show the document" : "Show the difference";
    fill(body, open ? difference(file.diff) : contents(file));
  });
  return button;
}

const NAMES = { "+": "added", "-": "removed", "@": "place", " ": "same" };

function difference(lines) {
  return h(
    "pre.diff",
    { tabindex: "0", "aria-label": "What changed since it was pushed" },
    lines.map(({ op, text }) => h(`span.${NAMES[op]}`, {}, op === "@" ? text : `${op} ${text}`, "\n")),
  );
}

function size(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
