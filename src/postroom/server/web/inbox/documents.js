// Documents as they are in the workspace now: rendered by the server, followed while they are open, and compared with the pushed text.

import { getBlob, getIfChanged } from "../lib/api.js";
import { fill, h, safe } from "../lib/dom.js";
import { oneAtATime } from "../lib/once.js";
import { full, when } from "../lib/time.js";
import { dialog } from "../parts/dialog.js";
import { icon } from "../parts/icons.js";
import { failed } from "../parts/toast.js";
import { difference, differencesOf } from "./difference.js";
import { addCopy, addMarkdown, fileAddress, loadPicture, markdown } from "./markdown.js";

const FOLLOW_FILES = 2000; // milliseconds, for a document in a dialog
const MOST_LINES = 20_000; // a longer text has no line numbers
const CONTENTS_FROM = 4; // headings

/**
 * A section for one document of an entry; look() loads it again if the file changed, and follow() too, unless it is being loaded.
 * `visit()` is the id of the time during which this person has the entry open. Of a `folded` document, only the head is shown at first.
 */
export function documentOf(entry, path, { quote, visit = null, folded = false }) {
  const body = h("div.content", {}, h("div.ghost.block"));
  const state = h("span.state");
  const remark = h("button.icon-button", { type: "button", "aria-label": `Comment on ${path}`, title: "Comment" }, icon("threads"));
  const fold = h("button.icon-button.folding", { type: "button", "aria-label": `Show ${path}`, title: "Show or hide" }, icon("down"));
  const head = h("header", {}, fold, h("h2", {}, path), state, quote && remark);
  const element = h("section.doc", { "data-path": path, "aria-label": path }, head, body);
  const setFolded = (hidden) => {
    body.hidden = hidden;
    fold.ariaExpanded = String(!hidden);
  };
  setFolded(folded);
  fold.addEventListener("click", () => setFolded(!body.hidden));
  state.addEventListener("click", () => setFolded(false)); // what changed is shown in the body
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
      const answer = await getIfChanged(address("beginning"), tag);
      if (!answer.body) return;
      tag = answer.tag;
      file = answer.body;
      if (file.more && !shown) show(file); // what is shown already stays until the rest is there
      if (file.more) file = await withRest(file);
    } catch (error) {
      tag = null;
      if (error.code === "away") return;
      file = { refused: `It cannot be shown: ${error.message}.` }; // the hint is for the agent that named it
    }
    const now = JSON.stringify(file);
    if (now === shown) return;
    shown = now;
    const begun = body.querySelector(".begun");
    if (begun && file.pieces) await addRest(begun, file, entry, quote);
    else show(file);
    fill(state, about(file, body, entry, quote));
  };
  const address = (part) => {
    const read = entry.id ? { entry: entry.id, ...(visit && { visit: visit() }) } : {};
    return fileAddress(entry, path, { ...read, part });
  };
  const withRest = async (file) => {
    const { body: rest } = await getIfChanged(address("rest"), null);
    if (rest.sha256 !== file.sha256 || rest.size !== file.size) tag = null; // it was written meanwhile: the next look shows it as it is
    return rest.pieces ? { ...rest, html: file.html, text: file.text } : rest;
  };
  const show = (file) => fill(body, contents(file, entry, quote));
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
  if (file.refused) return h("p.soft", {}, file.refused);
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
    element.classList.toggle("long", file.more);
    if (file.more) return [h("div.begun", {}, element, h("p.soft", {}, "The rest is on its way…"))];
    for (const piece of file.pieces ?? []) addMarkdown(element, piece, entry, { quote });
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

/** Add the rest to the beginning of a document, a piece a frame, so that the page stays quick. */
async function addRest(begun, file, entry, quote) {
  const element = begun.querySelector(".markdown");
  for (const piece of file.pieces) {
    await new Promise((next) => (document.hidden ? setTimeout(next) : requestAnimationFrame(next)));
    addMarkdown(element, piece, entry, { quote });
  }
  begun.classList.remove("begun"); // it stays where it is: moved, all of it would be laid out again
  begun.lastElementChild.remove();
  element.before(...[contentsList(element)].filter(Boolean));
  begun.append(...cuts(file));
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
  if (!file.changed && !file.changedSinceRead) return null;
  const badge = (text, title = null) => h("span.badge", { "data-tone": "warn", title }, text);
  return [
    file.changedSinceRead && badge("Changed since you last read it", `You read it ${full(when(file.readAt))}`),
    file.changed && badge("Changed since it was pushed"),
    differencesOf(file).length > 0 && switcher(file, body, entry, quote),
  ].filter(Boolean);
}

function switcher(file, body, entry, quote) {
  const button = h("button.link", { type: "button", "aria-expanded": "false" }, "Show the difference");
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") === "false";
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "Show the document" : "Show the difference";
    fill(body, open ? compared(file) : contents(file, entry, quote));
  });
  return button;
}

/** The changes of a document, with a choice of the version to compare with if there are two. */
function compared(file) {
  const all = differencesOf(file);
  const place = h("div", {}, difference(file, all[0]));
  if (all.length === 1) return place;
  const choices = all.map((one) => h("button", { type: "button", "aria-pressed": String(one === all[0]) }, sentence(one.name)));
  for (const [at, button] of choices.entries())
    button.addEventListener("click", () => {
      for (const each of choices) each.setAttribute("aria-pressed", String(each === button));
      fill(place, difference(file, all[at]));
    });
  return [h("div.filters", { role: "group", "aria-label": "Compare" }, choices), place];
}

const sentence = (words) => words[0].toUpperCase() + words.slice(1);

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
