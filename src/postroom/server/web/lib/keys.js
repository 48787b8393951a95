// Keyboard shortcuts. The newest layer that binds a key handles it. Keys typed in a field are not shortcuts.

const SEQUENCE = 1000; // milliseconds between the two keys of "g i"
const MOVES = new Set(["j", "k", "J", "K", "ArrowDown", "ArrowUp"]); // they act again while they are held down; other keys act once
const layers = [];
let first = null;

/** Bind keys: {"j": act, "g i": act, "mod+k": act}. An act that returns false leaves the key to other handlers. Returns a function that unbinds. */
export function bind(meanings) {
  layers.push(meanings);
  return () => layers.splice(layers.indexOf(meanings), 1);
}

export const inField = (element) => Boolean(element?.closest?.("input, textarea, select, [contenteditable]"));

function named(event) {
  const mod = event.metaKey || event.ctrlKey ? "mod+" : "";
  return mod + (event.key.length === 1 && !mod ? event.key : event.key.length === 1 ? event.key.toLowerCase() : event.key);
}

function meaning(name) {
  for (const layer of [...layers].reverse()) if (layer[name]) return layer[name];
  return null;
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || event.altKey) return;
  const name = named(event);
  const anywhere = name === "Escape" || name.startsWith("mod+");
  if (!anywhere && (inField(event.target) || document.querySelector("dialog[open]"))) return;
  if (name === "Escape" && document.querySelector("dialog[open]")) return; // a dialog closes itself
  if (event.repeat && !MOVES.has(name)) return void (meaning(name) && event.preventDefault());
  const act = (first && meaning(`${first} ${name}`)) ?? meaning(name);
  clearTimeout(forget);
  first = !act && layers.some((layer) => Object.keys(layer).some((key) => key.startsWith(`${name} `))) ? name : null;
  if (first) forget = setTimeout(() => (first = null), SEQUENCE);
  if (act && act(event) !== false) event.preventDefault();
});
let forget;
