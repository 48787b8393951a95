// A tooltip beside the pointer or the focused element. The other segments of its thread are highlighted.

import { fill, h } from "../lib/dom.js";

export class Tip {
  constructor(main, box) {
    this.box = box;
    this.element = h("div.tip", { hidden: true, "aria-hidden": "true" });
    main.append(this.element);
    box.addEventListener("pointermove", (event) => event.pointerType !== "touch" && this.over(event.target, event.clientX, event.clientY));
    box.addEventListener("pointerleave", () => this.hide());
    box.addEventListener("focusin", (event) => this.focused(event.target));
    box.addEventListener("focusout", () => this.hide());
    main.addEventListener("scroll", (this.scrolled = () => this.hide()), { passive: true });
    this.main = main;
  }

  over(target, x, y) {
    const found = target.closest(".swimlane [data-thread]");
    if (!found) return this.hide();
    this.show(found, x + 14, y + 16);
  }

  focused(target) {
    const found = target.closest(".swimlane a");
    if (!found?.matches(":focus-visible")) return;
    const { left, bottom } = found.getBoundingClientRect();
    this.show(found, left, bottom + 8);
  }

  show(found, x, y) {
    const { thread, tip } = found.dataset;
    if (this.shown !== found) {
      const subject = found.querySelector("title")?.textContent.split("\n")[0];
      const [first, ...rest] = (tip ?? "").split("\n");
      const lines = rest.map((line) => h("span.soft", {}, line));
      if (tip) fill(this.element, found.matches(".segment") && h("strong", {}, subject), h("span", {}, first), lines);
      this.light(thread);
      this.shown = found;
    }
    this.element.hidden = !tip;
    const { offsetWidth, offsetHeight } = this.element;
    this.element.style.left = `${Math.max(8, Math.min(x, innerWidth - offsetWidth - 8))}px`;
    this.element.style.top = `${y + offsetHeight > innerHeight - 8 ? y - offsetHeight - 32 : y}px`;
  }

  light(thread) {
    const picture = this.box.querySelector(".swimlane");
    picture.toggleAttribute("data-lit", Boolean(thread));
    for (const each of picture.querySelectorAll("[data-thread]")) each.toggleAttribute("data-lit", each.dataset.thread === thread);
  }

  hide() {
    if (!this.shown) return;
    this.shown = null;
    this.element.hidden = true;
    if (this.box.querySelector(".swimlane")) this.light(null);
  }

  remove() {
    this.main.removeEventListener("scroll", this.scrolled);
    this.element.remove();
  }
}
