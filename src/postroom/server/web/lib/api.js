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

const AWAY = { code: "away", message: "The server cannot be reached.", hint: "Is `inbox serve` running? What you wrote is kept." };
let signedOut = () => {};

/** Set the function that is called when the session is no longer valid. */
export function whenSignedOut(act) {
  signedOut = act;
}

export const get = (path, signal) => ask("GET", path, { signal });
export const getBlob = (path) => ask("GET", path, { read: (response) => response.blob() });
export const put = (path) => ask("PUT", path);
export const post = (path, body = {}, headers = {}) => ask("POST", path, { body, headers });
export const remove = (path, options = {}) => ask("DELETE", path, options);

/** Build a path from its parts. Each part may contain any character. */
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
