// Documents as they are in the workspace now: rendered by the server, followed while they are open, and compared with the pushed text.

import { getBlob, getIfChanged } from "../lib/api.js";
import { fill, h, safe } from "../lib/dom.js";
import { oneAtATime } from "../lib/once.js";
import { dialog } from "../parts/dialog.js";
import { icon } from "../parts/icons.js";
import { failed } from "../parts/toast.js";
import { difference } from "./difference.js";
import { addCopy, fileAddress, loadPicture, markdown } from "./markdown.js";

const FOLLOW_FILES = 2000; // milliseconds, for a document in a dialog
const MOST_LINES = 20_000; // a longer text has no line numbers
const CONTENTS_FROM = 4; // headings

/** A section for one document of an entry; look() loads it again if the file changed, and follow() too, unless it is being loaded. */
export function documentOf(entry, path, { quote }) {
  const body = h("div.content", {}, h("div.ghost.block"));
  const state = h("span.state");
  const remark = h("button.icon-button", { type: "button", "aria-label": `Comment on ${path}`, title: "Comment" }, icon("threads"));
  const head = h("header", {}, icon("file"), h("h2", {}, path), state, quote && remark);
  const element = h("section.doc", { "data-path": path, "aria-label": path }, head, body);
  let tag = null;
  let shown = "";
  let loading = false;
  const look = oneAtATime(async () => {
    loading = true;
    await load().finally(() => (loading = false));
  });
  const load = async () => {
    let file;
    try {
      const answer = await getIfChanged(fileAddress(entry, path, entry.id ? { entry: entry.id } : {}), tag);
      if (!answer.body) return;
      tag = answer.tag;
      file = answer.body;
    } catch (error) {
      tag = null;
      if (error.code === "away") return;
      file = { refused: [error.message, error.hint] };
    }
    const now = JSON.stringify(file);
    if (now === shown) return;
    shown = now;
    fill(body, contents(file, entry, quote));
    fill(state, about(file, body, entry, quote));
  };
  remark.addEventListener("mousedown", (event) => event.preventDefault()); // the selection stays
  remark.addEventListener("click", () => quote(commentOn(body, path, shown)));
  body.addEventListener("mouseup", () => setTimeout(() => offerComment(body, path, shown, quote)));
  return { element, look, follow: () => loading || look() };
}

/** Show another document of the workspace, to which a text links. */
export function openDocument(entry, path, { quote }) {
  const shown = documentOf(entry, path, { quote: (words) => (box.close(), quote?.(words)) });
  const box = dialog(path, h("div.body", {}, shown.element));
  box.classList.add("wide");
  shown.look();
  const timer = setInterval(() => document.hidden || shown.follow(), FOLLOW_FILES);
  box.addEventListener("close", () => clearInterval(timer));
}

function contents(file, entry, quote) {
  if (file.refused) return h("p.soft", {}, file.refused.filter(Boolean).join(" "));
  if (file.gone && !file.pushedText) return h("p.soft", {}, `The file is gone. ${file.reason} It was there when this was pushed.`);
  if (file.kind === "image") return loadPicture(h("img", { alt: `The picture ${file.path}` }), file.download, file.path);
  if (file.kind === "pdf") return pages(file);
  if (file.html === null) return h("p", {}, downloader("button", file), h("span.soft", {}, ` ${size(file.size)}`));
  if (file.text === "" || file.size === 0) return h("p.soft", {}, "The file is empty.");
  return [shownText(file, entry, quote), ...cuts(file)];
}

function shownText(file, entry, quote) {
  if (file.kind === "markdown") {
    const element = markdown("div", file.html, entry, { quote });
    return [contentsList(element), element];
  }
  if (file.kind === "table") return safe("div.markdown.table", file.html);
  const element = safe("div.source", file.html);
  const block = element.querySelector("pre");
  const lines = (file.text ?? "").split("\n");
  if (block && lines.length <= MOST_LINES) {
    element.prepend(numbers(lines, file.path, quote));
    addCopy(block);
  }
  return element;
}

/** Line numbers. A click on one quotes its line in the reply. */
function numbers(lines, path, quote) {
  const count = lines.at(-1) === "" ? lines.length - 1 : lines.length;
  const column = h("div.numbers", { "aria-hidden": "true" }, Array.from({ length: Math.max(1, count) }, (_, at) => `${at + 1}\n`).join(""));
  column.addEventListener("click", (event) => {
    const at = Math.floor((event.clientY - column.getBoundingClientRect().top) / (column.clientHeight / Math.max(1, count)));
    if (lines[at] !== undefined) quote?.(comment(path, at + 1, lines[at]));
  });
  return column;
}

function cuts(file) {
  const rest = [];
  if (file.rows > 1000)
    rest.push(h("p.soft", {}, `The first 1,000 of ${file.rows.toLocaleString()} rows. `, downloader("button.link", file)));
  if (file.truncated)
    rest.push(h("p.soft", {}, "Only the beginning is shown. ", downloader("button.link", file), ` all ${size(file.size)}.`));
  return rest;
}

/** The headings of a long document, as links. */
function contentsList(element) {
  const headings = [...element.querySelectorAll("h1, h2, h3")];
  if (headings.length < CONTENTS_FROM) return null;
  const link = (heading) =>
    h(
      "li",
      { "data-level": heading.tagName[1] },
      h("button.link", { type: "button", onclick: () => heading.scrollIntoView({ block: "start" }) }, heading.textContent),
    );
  return h("details.contents", {}, h("summary", {}, "Contents"), h("ol", {}, headings.map(link)));
}

function pages(file) {
  const frame = h("iframe.pdf", { title: `The document ${file.path}` });
  getBlob(file.download).then(
    (blob) => (frame.src = window.URL.createObjectURL(new Blob([blob], { type: "application/pdf" }))),
    (error) => failed("The document was not loaded.", error),
  );
  return [frame, h("p", {}, downloader("button", file), h("span.soft", {}, ` ${size(file.size)}`))];
}

function downloader(kind, file) {
  const button = h(kind, { type: "button" }, "Download");
  if (!file.download) button.disabled = true;
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

function about(file, body, entry, quote) {
  if (file.refused) return null;
  if (file.gone) {
    const kept = file.pushedText && h("span.badge", { "data-tone": "warn", title: file.reason }, "As it was pushed");
    return [h("span.badge", { "data-tone": "bad", title: file.reason }, "The file is gone"), kept];
  }
  if (!file.changed) return null;
  return [h("span.badge", { "data-tone": "warn" }, "Changed since it was pushed"), file.diff && switcher(file, body, entry, quote)];
}

function switcher(file, body, entry, quote) {
  const button = h("button.link", { type: "button", "aria-expanded": "false" }, "Show the difference");
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") === "false";
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "Show the document" : "Show the difference";
    fill(body, open ? difference(file) : contents(file, entry, quote));
  });
  return button;
}

// --- comments on what is selected

const comment = (path, line, quoted) => `On \`${path}\`${line ? `, line ${line}` : ""}:\n${quoted.replace(/^/gm, "> ")}\n\n`;

/** The beginning of a comment on a document: on its selected words, or on all of it. */
function commentOn(body, path, shown) {
  const selection = getSelection();
  const words = body.contains(selection.anchorNode) ? selection.toString().trim() : "";
  return words ? comment(path, lineOf(JSON.parse(shown || "{}").text, words), words.slice(0, 2000)) : `On \`${path}\`: `;
}

/** Offer a comment on the selected words of a document. */
function offerComment(body, path, shown, quote) {
  body.querySelector(".comment-on")?.remove();
  const selection = getSelection();
  const words = selection.toString().trim();
  if (!quote || !words || !body.contains(selection.anchorNode)) return;
  const { top, left } = selection.getRangeAt(0).getBoundingClientRect();
  const frame = body.getBoundingClientRect();
  const button = h("button.comment-on", { type: "button" }, icon("threads"), "Comment");
  button.style.top = `${Math.max(0, top - frame.top - 36)}px`;
  button.style.left = `${Math.max(0, left - frame.left)}px`;
  button.addEventListener("mousedown", (event) => event.preventDefault());
  button.addEventListener("click", () => {
    const text = commentOn(body, path, shown);
    button.remove();
    quote(text);
  });
  body.append(button);
}

function lineOf(text, words) {
  const first = words.split("\n")[0].slice(0, 60);
  const at = (text ?? "").split("\n").findIndex((line) => line.includes(first));
  return at < 0 ? null : at + 1;
}

function size(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
