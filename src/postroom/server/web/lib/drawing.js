// Diagrams and maths, drawn by libraries that are part of this page (web/vendor). They are loaded when a text needs them.

import { h } from "./dom.js";

const BASE = new window.URL("../vendor/", import.meta.url);
const DRAW_MILLISECONDS = 10_000;
let maths = null;
let frame = null;
let jobs = 0;

function script(name) {
  return new Promise((done, fail) =>
    document.head.append(h("script", { src: new window.URL(name, BASE).href, onload: done, onerror: fail })),
  );
}

/** Replace the source of a formula by MathML. If that fails, the source stays. */
export async function drawMaths(code) {
  try {
    await (maths ??= script("katex.min.js"));
    const place = h(code.classList.contains("display") ? "div.formula" : "span.formula");
    window.katex.render(code.textContent, place, {
      output: "mathml",
      displayMode: code.classList.contains("display"),
      throwOnError: true,
      trust: false,
    });
    code.replaceWith(place);
  } catch (error) {
    code.title = `This formula could not be drawn: ${error.message ?? error}`;
  }
}

/** Draw in a frame with a policy of its own: the library writes styles into its pictures. Only the finished picture comes back. */
function drawer() {
  frame ??= new Promise((done) => {
    const element = h("iframe.drawer", {
      src: new window.URL("diagram.html", BASE).href,
      title: "Drawing",
      "aria-hidden": "true",
      tabindex: "-1",
    });
    element.addEventListener("load", () => done(element.contentWindow));
    document.body.append(element);
  });
  return frame;
}

/** Replace the source of a diagram by its picture. If that fails, the source stays, with the reason. */
export async function drawDiagram(block) {
  const source = block.textContent;
  try {
    const picture = await request(source);
    const url = window.URL.createObjectURL(new Blob([picture], { type: "image/svg+xml" }));
    const image = h("img.diagram", { src: url, alt: `Diagram: ${source.slice(0, 200)}` });
    const [, width] = /viewBox="[-\d.]+ [-\d.]+ ([\d.]+)/.exec(picture) ?? [];
    if (width) image.width = Math.ceil(width); // as large as it was drawn, not as wide as the text
    block.replaceWith(image);
  } catch (error) {
    block.before(h("p.soft", {}, `This diagram could not be drawn: ${error.message}`));
  }
}

async function request(source) {
  const view = await drawer();
  const id = `diagram${++jobs}`;
  return new Promise((done, fail) => {
    const heard = ({ data, source: from }) => {
      if (from !== view || data.id !== id) return;
      stop();
      if (data.picture) done(data.picture);
      else fail(new Error(data.error));
    };
    const stop = () => {
      clearTimeout(timer);
      window.removeEventListener("message", heard);
    };
    const timer = setTimeout(() => (stop(), fail(new Error("it took too long"))), DRAW_MILLISECONDS);
    window.addEventListener("message", heard);
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark" || matchMedia("(prefers-color-scheme: dark)").matches;
    view.postMessage({ id, source, dark }, location.origin);
  });
}
