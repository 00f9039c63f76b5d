// tmux-task for opencode 1 and 2. Gives the shell of each session its owner, and delivers the
// follow-ups of its tasks. What to deliver, and when again, is decided by `tmux-task agent opencode`:
// this file only runs what must run inside opencode. One file serves both versions, because opencode
// updates itself.
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"

const PROGRAM = "tmux-task"

// How long to wait before a follower that ended is started again, in milliseconds. It doubles.
const FIRST_RETRY = 250
const LONGEST_RETRY = 30_000

// How long a shell waits until its session is followed, in milliseconds. A task that ends before
// that is delivered too, if tmux-task runs at all.
const FOLLOWED_WITHIN = 2000

// How long the first shell waits for the name of the task session, in milliseconds.
const NAMED_WITHIN = 5000

// How long to wait for the event that opencode 1 has stored a message before looking for it, in
// milliseconds.
const STORED_WITHIN = 5000

// How long to wait for the event that opencode 2 has moved a message from the inbox into the
// conversation before looking for it, in milliseconds. It does so when the present turn has ended.
const MOVED_WITHIN = 60_000

// How long to wait for the event that a turn of opencode 1 has ended before asking for it, in milliseconds.
const TURN_WITHIN = 10_000

// How often to look for it. The inbox is durable: what is not found was delivered unseen, or waits there.
const MOST_LOOKS = 5

// How long a call of the shell tool of opencode 2 may be before its shell, in milliseconds. A call that is
// interrupted or forbidden gets none, and nothing says so.
const SHELL_WITHIN = 5000

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** So many characters for a message, the same whenever it is delivered again. */
function codeOf(id, length) {
  const hash = createHash("sha256").update(`tmux-task:${id}`).digest()
  return Array.from(hash.subarray(0, length), (byte) => DIGITS[byte % DIGITS.length]).join("")
}

const suffixOf = (id) => codeOf(id, 14)

let lastTime = 0
let counter = 0

/** A message id as opencode 1 makes them: ascending, and with our suffix. */
function messageIdOf(id, now = Date.now()) {
  counter = now === lastTime ? counter + 1 : 1
  lastTime = now
  const time = (BigInt(now) * 0x1000n + BigInt(counter)) & 0xffffffffffffn
  return `msg_${time.toString(16).padStart(12, "0")}${suffixOf(id)}`
}

const pause = (time) => new Promise((resolve) => setTimeout(resolve, time).unref?.())

/** Resolves with the promise, or with nothing after so many milliseconds. */
async function within(time, promise) {
  let timer
  const late = new Promise((resolve) => (timer = setTimeout(resolve, time)))
  const result = await Promise.race([promise, late])
  clearTimeout(timer)
  return result
}

/** Follows the sessions of a folder. */
class Followers {
  constructor(directory, wanted = new Set()) {
    this.directory = directory
    this.retry = FIRST_RETRY
    this.sessionName = new Promise((resolve) => (this.named = resolve))
    this.wanted = wanted
    this.followed = new Map() // session id -> { promise, resolve }
    this.underWay = new Map() // session id -> { id, messageID, stored, resolve }
    this.start()
  }

  start() {
    const child = spawn(PROGRAM, ["agent", "opencode", "--adopt"], { cwd: this.directory, stdio: ["pipe", "pipe", "ignore"] })
    this.child = child
    child.unref?.()
    let rest = ""
    child.stdout.setEncoding("utf8").on("data", (text) => {
      const lines = (rest + text).split("\n")
      rest = lines.pop()
      for (const line of lines) this.receive(line)
    })
    child.stdin.on("error", () => {})
    child.on("error", () => {})
    child.on("close", () => {
      if (this.isStopped) return
      const timer = setTimeout(() => this.isStopped || this.start(), this.retry)
      timer.unref?.()
      this.retry = Math.min(this.retry * 2, LONGEST_RETRY)
    })
    for (const id of this.wanted) this.say({ follow: id })
  }

  stop() {
    this.isStopped = true
    this.underWay.clear()
    this.child.stdin.end()
  }

  say(request) {
    this.child.stdin.write(`${JSON.stringify(request)}\n`)
  }

  /** Resolves when the session is followed, or after a while without that. */
  async follow(id) {
    let state = this.followed.get(id)
    if (!state) {
      state = {}
      state.promise = new Promise((resolve) => (state.resolve = resolve))
      this.followed.set(id, state)
    }
    if (!this.wanted.has(id)) {
      this.wanted.add(id)
      this.say({ follow: id })
    }
    await within(FOLLOWED_WITHIN, state.promise)
  }

  /** Puts into this environment what a shell of the session needs, when the session is followed. */
  async nameOwner(id, env) {
    env.TMUX_TASK_OWNER = `opencode:${id}`
    await this.follow(id)
    if (process.env.TMUX_TASK_SESSION || process.env.PI_TMUX_SESSION) return
    const name = await within(NAMED_WITHIN, this.sessionName)
    if (name) env.TMUX_TASK_SESSION = name
  }

  receive(line) {
    let reply
    try {
      reply = JSON.parse(line)
    } catch {
      return
    }
    if (this.isStopped) return
    const { to } = reply
    switch (reply.kind) {
      case "hello":
        this.named(reply.sessionName)
        break
      case "following":
        this.retry = FIRST_RETRY
        this.followed.get(to)?.resolve()
        break
      case "message":
        this.deliver(to, reply)
        break
      case "replaced":
      case "failed":
        // It is followed again when its shell is used here again.
        this.wanted.delete(to)
        this.underWay.delete(to)
        this.followed.get(to)?.resolve()
        this.followed.delete(to)
        break
    }
  }

  async deliver(to, { id, message, options, isNew }) {
    if (this.underWay.get(to)?.id === id) return
    const state = { id, text: message.content, isNew, isSteer: options.deliverAs === "steer" }
    this.underWay.set(to, state)
    for (let wait = 500; this.underWay.get(to) === state; wait = Math.min(wait * 2, 60_000)) {
      try {
        state.stored = new Promise((resolve) => (state.resolve = resolve))
        if ((await this.give(to, state)) && this.underWay.get(to) === state) {
          this.underWay.delete(to)
          this.say({ received: { to, id } })
        }
      } catch {
        await pause(wait)
      }
    }
  }

  /** opencode reports that the session has a message, or that the user has taken it from the inbox. */
  stored(to, messageID) {
    const state = this.underWay.get(to)
    if (state && state.messageID === messageID) state.resolve(true)
  }
}

/** Gives messages to opencode 1, as prompts. */
class OfVersion1 extends Followers {
  /** Resolves with whether opencode has the message. */
  async give(to, state) {
    const { id, text } = state
    if (!state.isSteer) await this.turnEnd(to, state)
    if (this.underWay.get(to) !== state) return false
    // It may have arrived before opencode or the follower ended.
    if ((!state.isNew || state.messageID) && (await this.has(to, id))) return true
    state.messageID ??= messageIdOf(id)
    const answer = await this.client.session.promptAsync({ path: { id: to }, body: { messageID: state.messageID, parts: [{ type: "text", text }] } })
    if (answer.error) throw new Error(JSON.stringify(answer.error))
    return await within(STORED_WITHIN, state.stored)
  }

  /** Resolves when the session works at nothing, or this message is not to be given any more. */
  async turnEnd(to, state) {
    while (this.underWay.get(to) === state) {
      const ended = new Promise((resolve) => (state.turnEnded = resolve))
      const answer = await this.client.session.status()
      if (answer.error) throw new Error(JSON.stringify(answer.error))
      if ((answer.data[to]?.type ?? "idle") === "idle") return
      await within(TURN_WITHIN, ended)
    }
  }

  async has(to, id) {
    const answer = await this.client.session.messages({ path: { id: to }, query: { limit: 50 } })
    if (answer.error) throw new Error(JSON.stringify(answer.error))
    const suffix = suffixOf(id)
    return answer.data.some((message) => message.info.id.endsWith(suffix))
  }
}

/** Gives messages to opencode 2, into the inbox of the session. */
class OfVersion2 extends Followers {
  /** Resolves with whether opencode has the message: in the conversation, or in the inbox and from before. */
  async give(to, state) {
    const { id, text } = state
    state.messageID = `msg_${codeOf(id, 26)}`
    if (!state.isAdmitted) {
      const metadata = { source: "tmux-task", id }
      const description = text.split("\n")[1] ?? text
      // opencode admits an id once, also after a restart.
      await this.session.synthetic({ sessionID: to, id: state.messageID, text, description, metadata, delivery: state.isSteer ? "steer" : "queue" })
      state.isAdmitted = true
      if (!state.isNew) return true
    } else {
      const messages = await this.session.context({ sessionID: to })
      if (messages.some((message) => message.id === state.messageID)) return true
      state.looks = (state.looks ?? 0) + 1
      if (state.looks === MOST_LOOKS) return true
    }
    return await within(MOVED_WITHIN, state.stored)
  }
}

// opencode 1 loads the plugin once for each folder of a process.
const byDirectory = (globalThis[Symbol.for("tmux-task.opencode")] ??= new Map())

async function server({ client, directory }) {
  const followers = byDirectory.get(directory) ?? new OfVersion1(directory)
  followers.client = client
  byDirectory.set(directory, followers)
  return {
    "shell.env": async (input, output) => {
      if (input.sessionID) await followers.nameOwner(input.sessionID, output.env)
    },
    event: async ({ event }) => {
      if (event.type === "session.idle") followers.underWay.get(event.properties.sessionID)?.turnEnded?.()
      if (event.type === "message.updated") followers.stored(event.properties.info.sessionID, event.properties.info.id)
    },
  }
}

// The sessions that were followed when opencode 2 unloaded the plugin of a folder, to load it again.
const wantedIn = (globalThis[Symbol.for("tmux-task.opencode2")] ??= new Map())

/**
 * The calls of the shell tool whose shell is not there yet. opencode 2 asks for a shell's environment
 * without saying whose it is: the call that it belongs to has the same command, and came just before.
 */
class ShellCalls {
  constructor() {
    this.calls = new Set()
  }

  add(call) {
    if (call.tool === "shell") this.calls.add({ ...call, at: Date.now() })
  }

  end({ id, sessionID }) {
    for (const call of this.calls) if (call.id === id && call.sessionID === sessionID) this.calls.delete(call)
  }

  /** The session whose shell this is. None has one that the user opens. */
  sessionOf(command) {
    for (const call of this.calls) if (Date.now() - call.at > SHELL_WITHIN) this.calls.delete(call)
    const all = [...this.calls].reverse()
    // Another plugin may have changed the commands of a session's calls.
    const isOfOne = all.every((call) => call.sessionID === all[0].sessionID)
    const call = all.find((call) => call.input?.command === command) ?? (isOfOne ? all[0] : undefined)
    this.calls.delete(call)
    return call?.sessionID
  }
}

async function setup(ctx) {
  const directory = ctx.location.directory
  const shells = new ShellCalls()
  let followers
  await ctx.tool.hook("execute.before", (call) => shells.add(call))
  await ctx.tool.hook("execute.after", (call) => shells.end(call))
  await ctx.shell.hook("create.before", async ({ command, env }) => {
    const id = shells.sessionOf(command)
    if (id) await followers?.nameOwner(id, env)
  })
  // Last, so that nothing is left of a plugin that could not be set up.
  followers = new OfVersion2(directory, wantedIn.get(directory))
  followers.session = ctx.session
  wantedIn.set(directory, followers.wanted)
  const watch = async () => {
    while (!followers.isStopped) {
      try {
        for await (const { type, data } of ctx.event.subscribe()) {
          if (followers.isStopped) return
          if (type === "session.inbox.delivered" || type === "session.inbox.cancelled") followers.stored(data.sessionID, data.inboxID)
        }
      } catch {
        // What is missed meanwhile is looked for.
      }
      await pause(FIRST_RETRY)
    }
  }
  watch()
  return () => followers.stop()
}

export default { id: "tmux-task", server, setup }
