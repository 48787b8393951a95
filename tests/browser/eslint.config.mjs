// What the page's modules may use: the language, and the browser's own. A name that is neither is a mistake.

import js from "@eslint/js";

const browser = `
  AbortController Blob BroadcastChannel CustomEvent DOMException Element HTMLElement IntersectionObserver Intl Node Notification ResizeObserver SVGElement TextDecoderStream
  URLSearchParams cancelAnimationFrame clearInterval clearTimeout console crypto document fetch getComputedStyle getSelection history innerHeight innerWidth localStorage location
  matchMedia navigator performance reportError requestAnimationFrame sessionStorage setInterval setTimeout window
`;
const globals = Object.fromEntries(browser.trim().split(/\s+/).map((name) => [name, "readonly"]));

const worker = Object.fromEntries(["URL", "caches", "fetch", "self"].map((name) => [name, "readonly"]));

export default [
  { ignores: ["**/*.min.js"] },
  { files: ["**/sw.js"], languageOptions: { globals: worker } },
  { ...js.configs.recommended, ignores: ["**/sw.js"], languageOptions: { ecmaVersion: 2024, sourceType: "module", globals } },
];
