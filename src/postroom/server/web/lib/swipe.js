// Swiping a row on a touch screen: to the right and to the left.

const FAR = 80; // pixels after which it counts
const STEEP = 1.5; // how much flatter than a scroll the move must be

/** Call right(element) or left(element) when an element that matches a selector was swiped. */
export function onSwipe(view, selector, { right, left }) {
  let start = null;
  view.addEventListener(
    "touchstart",
    ({ touches: [touch], target }) => {
      const element = target.closest(selector);
      start = element && { element, x: touch.clientX, y: touch.clientY, across: 0 };
    },
    { passive: true },
  );
  view.addEventListener(
    "touchmove",
    ({ touches: [touch] }) => {
      if (!start) return;
      const [x, y] = [touch.clientX - start.x, touch.clientY - start.y];
      start.across = Math.abs(x) > STEEP * Math.abs(y) ? x : 0;
      const link = start.element.querySelector("a");
      link.style.transform = start.across ? `translateX(${start.across / 2}px)` : "";
      start.element.dataset.swipe = Math.abs(start.across) > FAR ? (start.across > 0 ? "right" : "left") : "";
    },
    { passive: true },
  );
  const end = () => {
    if (!start) return;
    const { element, across } = start;
    start = null;
    element.querySelector("a").style.transform = "";
    delete element.dataset.swipe;
    if (across > FAR) right(element);
    else if (across < -FAR) left(element);
  };
  view.addEventListener("touchend", end);
  view.addEventListener("touchcancel", () => start && ((start.across = 0), end()));
}
