// tmux-task for opencode. Gives the shell of each session its owner, and delivers the follow-ups of
// its tasks. What to deliver, and when again, is decided by `tmux-task agent opencode`: this file only
// runs what must run inside opencode.
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

// How long to wait for the event that a message is stored before looking for it, in milliseconds.
const STORED_WITHIN = 5000

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** The end of a message id, the same whenever the message is delivered again. */
function suffixOf(id) {
  const hash = createHash("sha256").update(`tmux-task:${id}`).digest()
  return Array.from(hash.subarray(0, 14), (byte) => DIGITS[byte % DIGITS.length]).join("")
}

let lastTime = 0
let counter = 0

/** A message id as opencode makes them: ascending, and with our suffix. */
function messageIdOf(id, now = Date.now()) {
  counter = now === lastTime ? counter + 1 : 1
  lastTime = now
  const time = (BigInt(now) * 0x1000n + BigInt(counter)) & 0xffffffffffffn
  return `msg_${time.toString(16).padStart(12, "0")}${suffixOf(id)}`
}

/** Resolves with the promise, or with nothing after so many milliseconds. */
async function within(time, promise) {
  let timer
  const late = new Promise((resolve) => (timer = setTimeout(resolve, time)))
  const result = await Promise.race([promise, late])
  clearTimeout(timer)
  return result
}

class Followers {
  constructor(client, directory) {
    this.client = client
    this.directory = directory
    this.retry = FIRST_RETRY
    this.sessionName = new Promise((resolve) => (this.named = resolve))
    this.wanted = new Set()
    this.followed = new Map() // session id -> { promise, resolve }
    this.underWay = new Map() // session id -> { id, messageID, received }
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
      const timer = setTimeout(() => this.start(), this.retry)
      timer.unref?.()
      this.retry = Math.min(this.retry * 2, LONGEST_RETRY)
    })
    for (const id of this.wanted) this.say({ follow: id })
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

  receive(line) {
    let reply
    try {
      reply = JSON.parse(line)
    } catch {
      return
    }
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
        this.deliver(to, reply.id, reply.message.content, reply.isNew)
        break
      case "replaced":
      case "failed":
        // It is followed again when its shell is used here again.
        this.wanted.delete(to)
        this.followed.get(to)?.resolve()
        this.followed.delete(to)
        break
    }
  }

  async deliver(to, id, text, isNew) {
    if (this.underWay.get(to)?.id === id) return
    const state = { id }
    this.underWay.set(to, state)
    for (let wait = 500; this.underWay.get(to) === state; wait = Math.min(wait * 2, 60_000)) {
      try {
        // It may have arrived before opencode or the follower ended.
        if (!isNew || state.messageID) {
          if (await this.isStored(to, id)) return this.received(to, id)
        }
        state.messageID ??= messageIdOf(id)
        const stored = new Promise((resolve) => (state.stored = resolve))
        const answer = await this.client.session.promptAsync({ path: { id: to }, body: { messageID: state.messageID, parts: [{ type: "text", text }] } })
        if (answer.error) throw new Error(JSON.stringify(answer.error))
        await within(STORED_WITHIN, stored)
        if (this.underWay.get(to) !== state) return
      } catch {
        await new Promise((resolve) => setTimeout(resolve, wait).unref?.())
      }
    }
  }

  async isStored(to, id) {
    const answer = await this.client.session.messages({ path: { id: to }, query: { limit: 50 } })
    if (answer.error) throw new Error(JSON.stringify(answer.error))
    const suffix = suffixOf(id)
    return answer.data.some((message) => message.info.id.endsWith(suffix))
  }

  /** opencode reports that it has stored a message. */
  stored(to, messageID) {
    const state = this.underWay.get(to)
    if (state && state.messageID === messageID) {
      this.received(to, state.id)
      state.stored?.()
    }
  }

  received(to, id) {
    this.underWay.delete(to)
    this.say({ received: { to, id } })
  }
}

// opencode loads the plugin once for each folder of a process.
const byDirectory = (globalThis[Symbol.for("tmux-task.opencode")] ??= new Map())

export const TmuxTask = async ({ client, directory }) => {
  const followers = byDirectory.get(directory) ?? new Followers(client, directory)
  followers.client = client
  byDirectory.set(directory, followers)
  return {
    "shell.env": async (input, output) => {
      if (!input.sessionID) return
      output.env.TMUX_TASK_OWNER = `opencode:${input.sessionID}`
      await followers.follow(input.sessionID)
      if (process.env.TMUX_TASK_SESSION || process.env.PI_TMUX_SESSION) return
      const name = await within(NAMED_WITHIN, followers.sessionName)
      if (name) output.env.TMUX_TASK_SESSION = name
    },
    event: async ({ event }) => {
      if (event.type === "message.updated") followers.stored(event.properties.info.sessionID, event.properties.info.id)
    },
  }
}
