#!/usr/bin/env node
// A stand-in for OpenCode 2, whose package was not to be had where this was written. It has of its
// public types (anomalyco/opencode, packages/plugin and packages/schema) what a plugin can see of a
// session: plugins with `setup(ctx)`, the hooks around the shell tool, events, and the durable inbox
// with its rules. Steers are taken between two steps, one queued item when the turn has ended; an id is
// admitted once; a turn that a crash has cut off is resumed at the next start.
//
//   opencode2.mjs SESSION      reads one JSON object a line: {"prompt": TEXT}
//
// MODEL_URL is the model's base URL, OPENCODE_STATE the file of the sessions.
import { spawn } from "node:child_process"
import { existsSync, readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"

const SESSION = process.argv[2]
const STATE = process.env.OPENCODE_STATE
const directory = process.cwd()
const SHELL = { type: "function", function: { name: "shell", parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] } } }

// What is on the disk.
const state = existsSync(STATE) ? JSON.parse(readFileSync(STATE, "utf8")) : { n: 0, sessions: {} }
const store = () => {
  writeFileSync(`${STATE}.new`, JSON.stringify(state))
  renameSync(`${STATE}.new`, STATE)
}
const nextId = (prefix) => `${prefix}_${String(++state.n).padStart(26, "0")}`
const sessionOf = (id) => (state.sessions[id] ??= { messages: [], inbox: [], isClaimed: false })

// Events go to everybody who reads them, each at its own pace.
const readers = new Set()
const publish = (type, data) => {
  store()
  for (const reader of readers) reader({ id: nextId("evt"), type, data, created: Date.now() })
}
async function* subscribe() {
  const waiting = []
  let wake
  const reader = (event) => {
    waiting.push(event)
    wake?.()
  }
  readers.add(reader)
  try {
    for (;;) {
      while (waiting.length > 0) yield waiting.shift()
      await new Promise((resolve) => (wake = resolve))
    }
  } finally {
    readers.delete(reader)
  }
}

function admit(sessionID, id, item) {
  const { messages, inbox } = sessionOf(sessionID)
  const existing = inbox.find((one) => one.id === id) ?? messages.find((one) => one.id === id)
  if (existing && existing.type !== item.type) throw new Error(`conflict: ${id}`)
  if (existing) return { ...existing, sessionID, delivery: existing.delivery ?? item.delivery }
  inbox.push({ id, ...item })
  publish("session.inbox.enqueued", { sessionID, inboxID: id, item })
  return { id, sessionID, ...item }
}

/** Moves steers into the conversation, else one queued item where that is allowed. */
function promote(sessionID, takesQueued) {
  const { messages, inbox } = sessionOf(sessionID)
  let taken = inbox.filter((item) => item.delivery === "steer")
  if (taken.length === 0 && takesQueued) taken = inbox.slice(0, 1)
  for (const item of taken) {
    inbox.splice(inbox.indexOf(item), 1)
    messages.push({ id: item.id, type: item.type, ...item.payload, time: { created: Date.now() } })
    publish("session.inbox.delivered", { sessionID, inboxID: item.id })
  }
  return taken.length > 0
}

const hooks = []
const domain = (name) => ({
  hook: async (event, callback) => {
    const one = { name: `${name}.${event}`, callback }
    hooks.push(one)
    return { dispose: async () => void hooks.splice(hooks.indexOf(one), 1) }
  },
})
async function trigger(name, event) {
  for (const one of hooks) if (one.name === name) await one.callback(event)
  return event
}

async function runShell(sessionID, call) {
  const before = { tool: "shell", sessionID, agent: "build", messageID: call.messageID, id: call.id, input: JSON.parse(call.function.arguments) }
  await trigger("tool.execute.before", before)
  const invocation = { command: before.input.command, cwd: directory, timeout: 120_000, shell: "/bin/bash", env: { ...process.env, OPENCODE: "1" } }
  await trigger("shell.create.before", invocation)
  const content = await new Promise((resolve) => {
    const child = spawn(invocation.shell, ["-c", invocation.command], { cwd: invocation.cwd, env: invocation.env, stdio: ["ignore", "pipe", "pipe"] })
    let output = ""
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (output += text))
    // A task's daemon may keep the pipe.
    child.on("exit", () => setTimeout(() => resolve(output), 50))
  })
  await trigger("tool.execute.after", { ...before, status: "completed", result: { content: [{ type: "text", text: content }] } })
  return content
}

/** Asks the model; returns its text and the calls of tools. */
async function ask(messages) {
  const wire = messages.flatMap((message) =>
    message.type === "assistant"
      ? [{ role: "assistant", content: message.text, tool_calls: message.calls.length > 0 ? message.calls : undefined }, ...message.results]
      : [{ role: "user", content: message.text }],
  )
  const body = JSON.stringify({ model: "fake-1", stream: true, messages: wire, tools: [SHELL] })
  const answer = await fetch(`${process.env.MODEL_URL}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body })
  const lines = (await answer.text()).split("\n").filter((line) => line.startsWith("data: {"))
  const deltas = lines.map((line) => JSON.parse(line.slice(6)).choices[0].delta)
  return { text: deltas.map((delta) => delta.content ?? "").join(""), calls: deltas.flatMap((delta) => delta.tool_calls ?? []) }
}

const running = new Map()

/** Begins work on the session, or does nothing while it works. */
function wake(sessionID) {
  if (!running.has(sessionID)) running.set(sessionID, work(sessionID).finally(() => running.delete(sessionID)))
}

async function work(sessionID) {
  const session = sessionOf(sessionID)
  while (promote(sessionID, true) || session.isClaimed) {
    session.isClaimed = true
    publish("session.execution.started", { sessionID })
    for (let goesOn = true; goesOn; ) {
      const { text, calls } = await ask(session.messages)
      const message = { id: nextId("msg"), type: "assistant", text, calls, results: [] }
      for (const call of calls) {
        const content = await runShell(sessionID, { ...call, messageID: message.id })
        message.results.push({ role: "tool", tool_call_id: call.id, content })
      }
      session.messages.push(message)
      store()
      goesOn = promote(sessionID, false) || calls.length > 0
    }
    session.isClaimed = false
    publish("session.execution.succeeded", { sessionID })
  }
}

const session = {
  synthetic: async ({ sessionID, id = nextId("msg"), text, description, metadata, delivery = "steer", resume }) => {
    if (!state.sessions[sessionID]) throw new Error(`no session ${sessionID}`)
    const admitted = admit(sessionID, id, { type: "synthetic", payload: { text, description, metadata }, delivery })
    if (resume !== false) wake(sessionID)
    return admitted
  },
  context: async ({ sessionID }) => sessionOf(sessionID).messages,
  get: async ({ sessionID }) => ({ id: sessionID, location: { directory } }),
}

sessionOf(SESSION)
store()
const config = join(process.env.XDG_CONFIG_HOME ?? join(process.env.HOME, ".config"), "opencode")
for (const folder of ["plugin", "plugins"].map((name) => join(config, name)).filter(existsSync)) {
  for (const file of readdirSync(folder).filter((name) => /\.[jt]s$/.test(name)).sort()) {
    const { default: plugin } = await import(join(folder, file))
    if (typeof plugin?.id !== "string" || typeof plugin.setup !== "function") {
      throw new Error("Plugin must export a default definition with an id and a setup function.")
    }
    const ctx = { app: {}, options: {}, location: { directory }, event: { subscribe }, session, shell: domain("shell"), tool: domain("tool") }
    await plugin.setup(ctx)
  }
}
for (const [id, { isClaimed, messages }] of Object.entries(state.sessions)) {
  if (!isClaimed) continue
  messages.push({ id: nextId("msg"), type: "synthetic", text: "The server restarted while you were working." })
  wake(id)
}
console.log("ready")
for await (const line of createInterface({ input: process.stdin })) {
  admit(SESSION, nextId("msg"), { type: "user", payload: { text: JSON.parse(line).prompt }, delivery: "steer" })
  wake(SESSION)
}
await Promise.all(running.values())
process.exit(0)
