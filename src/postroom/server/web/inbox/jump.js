// The way to the open question of an entry, where a long document hides it.

import { h } from "../lib/dom.js";
import { icon } from "../parts/icons.js";

/** A button that scrolls to the open question in `body`, and is shown only while none is in view. Call `watch()` after each redraw. */
export function jumpToQuestion(body) {
  const find = () => [...body.querySelectorAll('.question[data-state="open"]')];
  const seen = new Set();
  const element = h("button.jump", { type: "button", hidden: true }, icon("questions"), h("span", {}, "Go to the question"));
  const observer = new IntersectionObserver(
    (changes) => {
      for (const { target, isIntersecting } of changes) seen[isIntersecting ? "add" : "delete"](target);
      element.hidden = seen.size > 0 || !find().length;
    },
    { root: body },
  );
  element.addEventListener("click", () => {
    const [question] = find();
    question?.scrollIntoView({ block: "center" });
    question?.querySelector("button, textarea")?.focus({ preventScroll: true });
  });
  const watch = () => {
    observer.disconnect();
    seen.clear();
    const open = find();
    if (!open.length) element.hidden = true;
    for (const question of open) observer.observe(question);
  };
  return { element, watch };
}
