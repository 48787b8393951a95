// Update a tree of elements in place, so that focus, open parts, scroll positions and typed text are kept.
// Children are matched by data-key, buttons also by their text, others by position. The listeners of the existing
// element stay, so they may hold ids but never data. Elements below [data-island] are not changed.

const OWN = new Set(["open", "data-lit", "data-island"]); // attributes that belong to the person, not to the data

export function patch(old, fresh) {
  const focused = document.activeElement;
  const around = old.contains(focused) ? ancestors(focused, old) : [];
  become(old, fresh);
  if (!around.length || focused === document.activeElement) return;
  if (focused.isConnected) focused.focus({ preventScroll: true });
  else
    refocus(
      around.find((element) => element.isConnected),
      old,
    );
}

function ancestors(element, within) {
  const found = [];
  for (let each = element.parentElement; each && each !== within; each = each.parentElement) found.push(each);
  return [...found, within];
}

/** Move the focus to a neighbour if the focused element was removed, so that keyboard users keep their position. */
function refocus(near, old) {
  (near.querySelector("button:not(:disabled)") ?? old.closest("main") ?? old).focus({ preventScroll: true });
}

function become(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  attributes(old, fresh);
  if (!old.hasAttribute("data-island")) children(old, fresh);
}

function attributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (name === "style") old.style.cssText = fresh.style.cssText;
    else if (!OWN.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) if (!OWN.has(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
}

function children(old, fresh) {
  const wanted = [...fresh.childNodes];
  const keys = new Set(wanted.map(keyOf));
  for (const child of [...old.childNodes]) if (keyOf(child) !== null && !keys.has(keyOf(child))) child.remove();
  const known = new Map([...old.childNodes].filter((child) => keyOf(child) !== null).map((child) => [keyOf(child), child]));
  let place = old.firstChild;
  for (const child of wanted) {
    const found = keyOf(child) === null ? place : known.get(keyOf(child));
    if (!found || !alike(found, child)) {
      old.insertBefore(child, place);
      continue;
    }
    if (found === place) place = place.nextSibling;
    else old.insertBefore(found, place);
    become(found, child);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return null;
  if (node.dataset.key) return node.dataset.key;
  return node.nodeName === "BUTTON" ? `button ${node.getAttribute("aria-label") ?? node.textContent}` : null;
}

/** Whether one element can be patched into the other: the same tag, and the same key or name. */
function alike(one, other) {
  return one.nodeName === other.nodeName && keyOf(one) === keyOf(other) && one.classList?.[0] === other.classList?.[0];
}
