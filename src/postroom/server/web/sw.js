// The service worker: makes the page installable, and keeps its own files, never data. Without the server, the page opens and says that it
// is disconnected. Nothing that was shown before is shown as if it were live.

const VERSION = "{version}";
const CACHE = `postroom-${VERSION}`;

self.addEventListener("install", (event) => {
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
  if (url.pathname.startsWith(`/web/${VERSION}/`)) event.respondWith(kept(request));
  else if (request.mode === "navigate" && !url.pathname.startsWith("/api/") && url.pathname !== "/sign-in")
    event.respondWith(fetch(request).catch(() => caches.match("/")));
});

/** A file of this version of the page never changes. */
async function kept(request) {
  const cache = await caches.open(CACHE);
  const found = await cache.match(request);
  if (found) return found;
  const answer = await fetch(request);
  if (answer.ok) cache.put(request, answer.clone());
  return answer;
}
