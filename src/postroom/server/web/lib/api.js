// The server, asked. What it refuses is thrown as Refused, with its code and what to do.

import { proof } from "./key.js";

export class Refused extends Error {
  constructor(status, { code = "unknown", message = "", hint = "" } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
}

const AWAY = { code: "away", message: "The server cannot be reached.", hint: "Is `inbox serve` running? What you wrote is kept." };
let signedOut = () => {};

/** What is to happen when the server no longer knows who we are. */
export function whenSignedOut(act) {
  signedOut = act;
}

export const get = (path, signal) => ask("GET", path, { signal });
export const getBlob = (path) => ask("GET", path, { read: (response) => response.blob() });
export const put = (path) => ask("PUT", path);
export const post = (path, body = {}, headers = {}) => ask("POST", path, { body, headers });
export const remove = (path, options = {}) => ask("DELETE", path, options);

/** A path out of its parts, each of which may hold any character. */
export const at = (...parts) => "/" + parts.map(encodeURIComponent).join("/");

async function ask(method, path, { body, headers = {}, signal, keepalive = false, read = (response) => response.json() } = {}) {
  const request = { method, headers: { ...proof(), ...headers }, signal, keepalive, cache: "no-store" };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, AWAY);
  }
  if (response.ok) return response.status === 204 ? null : read(response);
  const answer = await response.json().catch(() => ({}));
  if (response.status === 401) signedOut();
  throw new Refused(
    response.status,
    answer.error ?? { code: "server_error", message: `The server failed (${response.status}).`, hint: "Try again." },
  );
}
