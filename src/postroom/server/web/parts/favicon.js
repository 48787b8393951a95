// The icon of the browser's tab: with the number of open questions, while there are some.

const SHAPE = "M4 18 8 6h16l4 12v8H4z";
let shown = null;
let usual = null;
let made = null;

export function drawFavicon(questions) {
  const link = document.querySelector('link[rel="icon"]');
  const number = questions > 9 ? "9+" : String(questions || "");
  if (!link || number === shown) return;
  usual ??= link.href;
  shown = number;
  if (made) window.URL.revokeObjectURL(made);
  made = number ? window.URL.createObjectURL(new Blob([picture(number)], { type: "image/svg+xml" })) : null;
  link.href = made ?? usual;
  link.dataset.count = number;
}

function picture(number) {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path d="${SHAPE}" fill="#4350cf"/><circle cx="21" cy="11" r="11" fill="#bd2a35"/><text x="21" y="16.5" font-family="sans-serif" font-size="15" font-weight="700" text-anchor="middle" fill="#fff">${number}</text></svg>`;
}
