// Behaviour of Markdown that the server has rendered: pictures and links of the workspace, diagrams, maths, copy buttons, directions.

import { getBlob } from "../lib/api.js";
import { h, safe } from "../lib/dom.js";
import { drawDiagram, drawMaths } from "../lib/drawing.js";
import { icon } from "../parts/icons.js";
import { openDocument } from "./documents.js";

const LONG = 1000; // blocks
let texts = 0;

/** The address of a file of a workspace, to download it. */
export const fileAddress = (entry, path, more = {}) =>
  `/api/workspaces/${encodeURIComponent(entry.workspaceId)}/file?${new URLSearchParams({ path, ...more })}`;

/**
 * An element with rendered Markdown. `entry` names the workspace of its pictures and links; without a workspace, they are only named.
 * `quote(words)` puts a quotation into the reply bar.
 */
export function markdown(tag, html, entry, options = {}) {
  const element = h(`${tag}.markdown`);
  element.dataset.prefix = `t${++texts}-`;
  addMarkdown(element, html, entry, options);
  return element;
}

/** Add a piece to an element with rendered Markdown. */
export function addMarkdown(text, html, entry, { quote } = {}) {
  const element = safe("div", html);
  const { prefix } = text.dataset;
  // A list, a quotation or a table has one direction, that of its first words: an element takes no notice of children with their own.
  for (const block of element.querySelectorAll("p, ul, ol, h1, h2, h3, h4, h5, h6, table, blockquote"))
    if (!block.parentElement.closest("ul, ol, blockquote")) block.dir = "auto";
  for (const marked of element.querySelectorAll("[id]")) marked.id = prefix + marked.id;
  if (!entry.workspaceId) nameFiles(element);
  for (const link of element.querySelectorAll("a")) bindLink(link, text, prefix, entry, quote);
  for (const image of element.querySelectorAll("img[data-path]"))
    loadPicture(image, fileAddress(entry, image.dataset.path, { download: 1 }), image.dataset.path);
  for (const block of element.querySelectorAll("pre.mermaid")) drawDiagram(block);
  for (const formula of element.querySelectorAll("code.maths")) drawMaths(formula);
  for (const block of element.querySelectorAll("pre:not(.mermaid)")) addCopy(block);
  text.append(...element.childNodes);
  if (text.childElementCount > LONG) text.classList.add("long");
}

function nameFiles(element) {
  for (const image of element.querySelectorAll("img[data-path]"))
    image.replaceWith(h("span.missing", {}, `${image.alt} (${image.dataset.path})`));
  for (const link of element.querySelectorAll("a[data-path]")) link.replaceWith(...link.childNodes, ` (${link.dataset.path})`);
}

function bindLink(link, element, prefix, entry, quote) {
  const href = link.getAttribute("href") ?? "";
  if (link.dataset.path) {
    link.removeAttribute("target");
    link.href = `#${link.dataset.path}`;
    link.addEventListener("click", (event) => {
      event.preventDefault();
      event.stopPropagation();
      openDocument(entry, link.dataset.path, { quote });
    });
  } else if (href.startsWith("#")) {
    link.removeAttribute("target");
    link.addEventListener("click", (event) => {
      event.preventDefault();
      event.stopPropagation();
      (document.getElementById(prefix + href.slice(1)) ?? headingOf(element, href.slice(1)))?.scrollIntoView({ block: "center" });
    });
  }
}

const slug = (text) =>
  text
    .toLowerCase()
    .trim()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replace(/\s/g, "-");

function headingOf(element, name) {
  return [...element.querySelectorAll("h1, h2, h3, h4, h5, h6")].find((heading) => slug(heading.textContent) === decodeURIComponent(name));
}

/** A browser sends no key with a picture, so the page fetches it itself. SVG comes without its type; in a picture, its scripts do not run. */
export function loadPicture(image, address, path) {
  const typed = (blob) => (/\.svg$/i.test(path) ? new Blob([blob], { type: "image/svg+xml" }) : blob);
  getBlob(address).then(
    (blob) => (image.src = window.URL.createObjectURL(typed(blob))),
    (error) => image.replaceWith(h("span.missing", {}, `${image.alt}: ${error.message || "the picture could not be loaded"}`)),
  );
  return image;
}

/** A button that copies a block of code. */
export function addCopy(block) {
  const copy = h("button.copy", { type: "button", "aria-label": "Copy", title: "Copy" }, icon("copy"));
  copy.addEventListener("click", async () => {
    const text = [...block.childNodes]
      .filter((node) => node !== copy)
      .map((node) => node.textContent)
      .join("");
    await navigator.clipboard?.writeText(text).catch(() => {});
    copy.title = "Copied";
  });
  const frame = h("div.copyable");
  block.replaceWith(frame);
  frame.append(block, copy);
}
