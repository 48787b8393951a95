// Postroom's plugin for opencode, written by `inbox harness connect opencode` and removed by `--undo`.
// It tells the agent what waits in its inbox. Busy: with the next tool's result. At rest: it starts a turn. It takes nothing.
import { spawn } from "node:child_process"

const command = "COMMAND"
const flags = ["FLAGS"]
const wakeStatus = "WAKE_STATUS" // not 2, with which a broken command may exit: it would start turns for ever

function run(event, session, keep) {
  return new Promise((resolve) => {
    const child = spawn(command, ["hook", event, "--harness", "opencode", "--session", session, "--wake-status", String(wakeStatus), ...flags], { stdio: ["ignore", "pipe", "pipe"] })
    let out = ""
    let err = ""
    child.stdout.on("data", (part) => (out += part))
    child.stderr.on("data", (part) => (err += part))
    child.on("error", () => resolve({ code: 0, out: "", err: "" }))
    child.on("close", (code) => resolve({ code, out, err }))
    keep?.(child)
  })
}

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

export const Postroom = async ({ client }) => {
  let session
  let busy = false
  let waiter
  let carried = "" // what a waiter announced after a turn had begun

  async function prompt(text) {
    busy = true
    await client.session.promptAsync({ path: { id: session }, body: { parts: [{ type: "text", text, synthetic: true }] } })
  }

  async function rest() {
    if (waiter || busy || !session) return
    const ended = run("wait", session, (child) => (waiter = child))
    const { code, err } = await ended
    waiter = undefined
    if (code !== wakeStatus) return
    if (busy) carried = err.trim()
    else await prompt(err.trim())
  }

  function work() {
    busy = true
    waiter?.kill()
  }

  async function begin(id) {
    session = id
    await run("start", id)
    if (!busy) rest()
  }

  return {
    event: async ({ event }) => {
      const id = event.properties?.sessionID ?? event.properties?.info?.id
      if (event.type === "session.created" && !event.properties?.info?.parentID) await begin(id)
      if (event.type !== "session.idle" || id !== session) return
      busy = false
      const { out } = await run("stop", session)
      const text = [carried, parse(out).reason].filter(Boolean).join(" ")
      carried = ""
      if (text) await prompt(text)
      else rest()
    },
    "chat.message": async ({ sessionID }) => {
      session ??= sessionID
      if (sessionID === session) work()
    },
    "tool.execute.after": async ({ sessionID }, output) => {
      const own = typeof output?.output === "string" // tools of MCP have a list instead
      if (sessionID !== session || (!own && !Array.isArray(output?.content))) return
      const { out } = await run("tool", session)
      const text = [carried, parse(out).hookSpecificOutput?.additionalContext].filter(Boolean).join(" ")
      carried = ""
      if (text && own) output.output += `\n\n<postroom>${text}</postroom>`
      else if (text) output.content.push({ type: "text", text: `<postroom>${text}</postroom>` })
    },
  }
}
