"""Values that only a script inside the page can read: colours, sizes, movement."""

from __future__ import annotations

# Serious and critical findings of axe-core, which is put into the page as it loads.
AXE = """() => axe.run(document, {
  resultTypes: ['violations'],
  runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
}).then(({violations}) => violations
  .filter(({impact}) => impact === 'serious' || impact === 'critical')
  .map(({id, help, nodes}) => {
    const where = nodes.slice(0, 4).map(({target, failureSummary}) => `${target.join(' ')} ${failureSummary}`);
    return `${id}: ${help}: ${where.join(' | ')}`;
  }))"""

# The same, of colours alone: in the dark nothing else is different.
AXE_COLOURS = AXE.replace("runOnly: [", "runOnly: ['color-contrast', 'link-in-text-block'] ?? [")

# Elements that stick out to the right of the page, or makes one of its panes scroll that way; tables and code may scroll by themselves.
WIDER = """() => {
  const wide = document.documentElement.clientWidth;
  const clips = (element) => ['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(element).overflowX);
  const inside = (element) => {
    for (let above = element.parentElement; above && above !== document.body; above = above.parentElement) {
      if (clips(above)) return true;
    }
    return false;
  };
  const words = (element) => element.outerHTML.slice(0, 120);
  const all = [...document.querySelectorAll('body *')].filter((element) => element.getClientRects().length);
  const out = all.filter((element) => element.getBoundingClientRect().right > wide + 1 && !inside(element));
  const panes = [...document.querySelectorAll('main, main > *, #entries, #detail, article')];
  const sideways = panes.filter((pane) => clips(pane) && pane.scrollWidth > pane.clientWidth + 1);
  return {page: document.documentElement.scrollWidth - wide, out: out.map(words), sideways: sideways.map(words)};
}"""

# The focused element, and whether it can be told by looking.
FOCUS = """() => {
  const focused = document.activeElement;
  if (!focused || focused === document.body) return null;
  const outlined = (style) => style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  const ringed = (element) => outlined(getComputedStyle(element)) || getComputedStyle(element).boxShadow !== 'none';
  const around = focused.closest('.row, label, .field') ?? focused;
  return [ringed(focused) || ringed(around) || outlined(getComputedStyle(focused, '::after')), focused.outerHTML.slice(0, 90)];
}"""

MOVING = """() => document.getAnimations()
  .filter((animation) => animation.playState === 'running' && (animation.effect?.getTiming().duration ?? 0) > 20)
  .map((animation) => animation.effect.target?.outerHTML.slice(0, 90))"""

# The smaller side of each element, and which it is.
SIDES = """all => all.filter((element) => element.getClientRects().length).map((element) => {
  const {width, height} = element.getBoundingClientRect();
  return [Math.min(width, height), element.outerHTML.slice(0, 90)];
})"""

# The texts that are wider than their element.
CUT = """all => all.filter((element) => element.getClientRects().length && element.scrollWidth > element.clientWidth + 1)
  .map((element) => element.textContent)"""

COLOURS = "element => new Set([...element.querySelectorAll('span')].map((span) => getComputedStyle(span).color)).size"

LOOKS = """row => [row, ...row.querySelectorAll('*')].map((element) => {
  const {color, fontWeight, opacity, backgroundColor} = getComputedStyle(element);
  return [color, fontWeight, opacity, backgroundColor].join();
})"""

ALIGNED = """cells => cells.map((cell) => getComputedStyle(cell).textAlign)
  .map((side) => side.replace('-webkit-', '').replace('start', 'left').replace('end', 'right'))"""

# How bright the page's paper is, from 0 to 255.
BRIGHTNESS = """() => {
  const canvas = Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext('2d');
  canvas.fillStyle = getComputedStyle(document.body).backgroundColor;
  canvas.fillRect(0, 0, 1, 1);
  const [red, green, blue] = canvas.getImageData(0, 0, 1, 1).data;
  return (red + green + blue) / 3;
}"""

# Put into the page as it loads: the browser's own measure of what jumped without being asked to.
SHIFTS = """
window.shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
}).observe({type: 'layout-shift', buffered: true});
"""
