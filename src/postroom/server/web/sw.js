// The service worker: makes the page installable, and keeps the page itself, never data. Without the server, the page opens and says that it
// is disconnected. Nothing that was shown before is shown as if it were live. The files of a version never change, and the browser's own
// cache keeps them: read through a worker, the first rows came twice as late.

const VERSION = "{version}";
const CACHE = `postroom-${VERSION}`;

self.addEventListener("install", (event) => {
  event.addRoutes?.({ condition: { urlPattern: { pathname: "/web/*" } }, source: "network" }); // past the worker
  event.waitUntil(
    caches
      .open(CACHE)
      .then((cache) => cache.add("/"))
      .then(() => self.skipWaiting()),
  );
});

self.addEventListener("activate", (event) => {
  const others = (names) => Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name)));
  event.waitUntil(
    caches
      .keys()
      .then(others)
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== self.location.origin) return;
  if (request.mode === "navigate" && !url.pathname.startsWith("/api/") && url.pathname !== "/sign-in")
    event.respondWith(fetch(request).catch(() => caches.match("/")));
});
