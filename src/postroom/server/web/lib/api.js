// Requests to the server. A refusal is thrown as Refused, with its code and hint.

import { proof } from "./key.js";

export class Refused extends Error {
  constructor(status, { code = "unknown", message = "", hint = "" } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
}

const AWAY = { code: "away", message: "The server cannot be reached.", hint: "Is `inbox serve` running?" };
let signedOut = () => {};

/** Set the function that is called when the session is no longer valid. */
export function whenSignedOut(act) {
  signedOut = act;
}

export const get = (path, signal) => ask("GET", path, { signal });
/** The body if it changed since the answer with this tag: {body, tag}, with body null if it did not. */
export const getIfChanged = (path, tag, signal) =>
  ask("GET", path, {
    signal,
    headers: tag ? { "If-None-Match": tag } : {},
    read: async (response) => ({ body: response.status === 304 ? null : await response.json(), tag: response.headers.get("ETag") }),
  });
export const getBlob = (path) => ask("GET", path, { read: (response) => response.blob() });
export const put = (path, body = undefined) => ask("PUT", path, { body });
export const post = (path, body = {}, headers = {}, keepalive = false) => ask("POST", path, { body, headers, keepalive });
export const remove = (path, options = {}) => ask("DELETE", path, options);

/** Build a path from its parts. Each part may contain any character. */
export const at = (...parts) => "/" + parts.map(encodeURIComponent).join("/");

/** Await a request. A connection that breaks off, before the answer or within it, means that the server is away. */
async function reached(request) {
  try {
    return await request;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, AWAY);
  }
}

async function ask(method, path, { body, headers = {}, signal, keepalive = false, read = (response) => response.json() } = {}) {
  const request = { method, headers: { ...proof(), ...headers }, signal, keepalive, cache: "no-store" };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers["Content-Type"] = "application/json";
  }
  const response = await reached(fetch(path, request));
  if (response.ok || response.status === 304) return response.status === 204 ? null : reached(read(response));
  const answer = await response.json().catch(() => ({}));
  if (response.status === 401) signedOut();
  throw new Refused(
    response.status,
    answer.error ?? { code: "server_error", message: `The server failed (${response.status}).`, hint: "Try again." },
  );
}
