// A virtual list: only the visible items are in the page. Every item has a known height, so that nothing jumps.

const BEYOND = 600; // pixels above and below that are made ahead

export class Scroll {
  /** items: {key, height, …}. make(item) returns its element, patch(element, item) updates one. */
  constructor(view, list, { make, patch, nearEnd }) {
    Object.assign(this, { view, list, make, patch, nearEnd });
    this.items = [];
    this.tops = [0];
    this.made = new Map(); // key → {element, item}
    view.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(view);
  }

  /** Show these items. Visible items keep their position, unless the list is at its top. */
  set(items) {
    const anchor = this.view.scrollTop > 0 ? this.items[this.indexAt(this.view.scrollTop)] : null;
    const within = anchor ? this.view.scrollTop - this.tops[this.indexAt(this.view.scrollTop)] : 0;
    this.items = items;
    this.tops = [0];
    for (const item of items) this.tops.push(this.tops.at(-1) + item.height);
    this.list.style.height = `${this.tops.at(-1)}px`;
    const at = anchor ? items.findIndex((item) => item.key === anchor.key) : -1;
    if (at >= 0) this.view.scrollTop = this.tops[at] + within;
    this.draw();
  }

  /** The last item that begins at or above a height. */
  indexAt(top) {
    let [low, high] = [0, this.items.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= top) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  draw() {
    const { scrollTop, clientHeight } = this.view;
    const begin = this.indexAt(scrollTop - BEYOND);
    const end = Math.min(this.items.length, this.indexAt(scrollTop + clientHeight + BEYOND) + 1);
    const wanted = new Set(this.items.slice(begin, end).map((item) => item.key));
    for (const [key, { element }] of this.made) {
      if (wanted.has(key)) continue;
      element.remove();
      this.made.delete(key);
    }
    let place = this.list.firstElementChild;
    for (let at = begin; at < end; at++) {
      const element = this.drawn(this.items[at], this.tops[at]);
      if (element === place) place = place.nextElementSibling;
      else this.list.insertBefore(element, place);
    }
    if (this.tops.at(-1) - scrollTop - clientHeight < clientHeight + BEYOND) this.nearEnd?.();
  }

  drawn(item, top) {
    let known = this.made.get(item.key);
    if (!known) this.made.set(item.key, (known = { element: this.make(item), item, top: null }));
    else if (known.item !== item) this.patch(known.element, item);
    known.item = item;
    if (known.top !== top) known.element.style.transform = `translateY(${(known.top = top)}px)`;
    return known.element;
  }

  /** Scroll an item into view, with a margin. */
  reveal(key) {
    const at = this.items.findIndex((item) => item.key === key);
    if (at < 0) return null;
    const [top, bottom, margin] = [this.tops[at], this.tops[at + 1], 40];
    if (top - margin < this.view.scrollTop) this.view.scrollTop = top - margin;
    else if (bottom + margin > this.view.scrollTop + this.view.clientHeight) this.view.scrollTop = bottom + margin - this.view.clientHeight;
    this.draw();
    return this.made.get(key)?.element ?? null;
  }

  /** Redraw one item if it is visible. */
  again(item) {
    const known = this.made.get(item.key);
    const at = this.items.findIndex((each) => each.key === item.key);
    if (at >= 0) this.items[at] = item;
    if (known) {
      this.patch(known.element, item);
      known.item = item;
    }
  }
}
