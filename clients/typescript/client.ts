// A client of a Postroom server for browsers, Node, Deno and Bun. It needs `fetch` and nothing else.
//
//   const inbox = new Postroom("http://127.0.0.1:8420", token);
//   await inbox.call("POST /api/mailbox", { body: { to: "reviewer", payload: "review the patch" } });

import type { Routes } from "./routes.ts";

type Request<Name extends keyof Routes> = Routes[Name]["request"];
type Rest<Name extends keyof Routes> = {} extends Request<Name> ? [request?: Request<Name>] : [request: Request<Name>];
type Parts = { path?: Record<string, unknown>; query?: Record<string, unknown>; body?: unknown };

/** The server refused a request. `code` is stable; `hint` says what to do next. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;

  constructor(status: number, error: { code?: string; message?: string; hint?: string }) {
    super(error.message ?? `the server answered with ${status}`);
    this.name = "Refused";
    this.status = status;
    this.code = error.code ?? "";
    this.hint = error.hint ?? "";
  }
}

/** Quote one part of a path. A part of dots would change the route, also if it is quoted. */
function encodePart(part: string): string {
  if (part === "." || part === "..") throw new TypeError(`${JSON.stringify(part)} cannot be a part of an address`);
  return encodeURIComponent(part);
}

export class Postroom {
  readonly #url: string;
  readonly #token: string;

  /** Throws a `TypeError` if the token would be sent to another machine without encryption, unless `insecure` is true. */
  constructor(url: string, token: string, { insecure = false }: { insecure?: boolean } = {}) {
    const { protocol, hostname } = new URL(url);
    const isLocal = hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
    if (protocol !== "https:" && !(protocol === "http:" && (isLocal || insecure))) {
      throw new TypeError(`the token would be sent to ${hostname} without encryption: use https://`);
    }
    this.#url = url.replace(/\/$/, "");
    this.#token = token;
  }

  /** Call a route. Returns its answer, null for an answer without a body, or throws `Refused`. */
  async call<Name extends keyof Routes>(name: Name, ...[request]: Rest<Name>): Promise<Routes[Name]["answer"]> {
    const { path = {}, query = {}, body } = (request ?? {}) as Parts;
    const [method = "", template = ""] = name.split(" ");
    const address = new URL(this.#url + template.replace(/\{(\w+)\}/g, (_, key: string) => encodePart(String(path[key]))));
    for (const [key, value] of Object.entries(query)) {
      if (value !== undefined) address.searchParams.set(key, String(value));
    }
    const headers: Record<string, string> = { Authorization: `Bearer ${this.#token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const response = await fetch(address, { method, headers, redirect: "error", body: body === undefined ? null : JSON.stringify(body) });
    const text = await response.text();
    const isJson = (response.headers.get("Content-Type") ?? "").includes("json");
    const answer: unknown = text === "" ? null : isJson ? JSON.parse(text) : text;
    if (!response.ok) throw new Refused(response.status, (answer as { error?: object } | null)?.error ?? {});
    return answer as Routes[Name]["answer"];
  }
}
