// tmux-task for GitHub Copilot CLI. Delivers the follow-ups of the session's tasks. What to deliver, and
// when again, is decided by `tmux-task agent copilot`: this file only runs what must run beside Copilot.
// Its shells name the session themselves, in COPILOT_AGENT_SESSION_ID.
import { joinSession } from "@github/copilot-sdk/extension"
import { spawn } from "node:child_process"

const PROGRAM = "tmux-task"

// How long to wait before a follower that ended is started again, in milliseconds. It doubles.
const FIRST_RETRY = 250
const LONGEST_RETRY = 30_000

// Copilot ends: nothing here may outlive it.
process.stdin.on("end", () => process.exit(0)).on("close", () => process.exit(0))

const session = await joinSession()

class Follower {
  constructor() {
    this.retry = FIRST_RETRY
    this.hasComplained = false
    /** The message that Copilot was given and that the session does not have yet. */
    this.underWay = undefined
    this.start()
  }

  start() {
    const child = spawn(PROGRAM, ["agent", "copilot", "--id", session.sessionId], { stdio: ["pipe", "pipe", "ignore"] })
    this.child = child
    let rest = ""
    child.stdout.setEncoding("utf8").on("data", (text) => {
      const lines = (rest + text).split("\n")
      rest = lines.pop()
      for (const line of lines) this.receive(line)
    })
    child.stdin.on("error", () => {})
    child.on("error", (error) => this.complain(`${PROGRAM}: ${error.message}`))
    child.on("close", () => {
      if (this.isReplaced || this.child !== child) return
      setTimeout(() => this.start(), this.retry)
      this.retry = Math.min(this.retry * 2, LONGEST_RETRY)
    })
  }

  complain(text) {
    if (!this.hasComplained) session.log(text, { level: "warning", ephemeral: true }).catch(() => {})
    this.hasComplained = true
  }

  receive(line) {
    let reply
    try {
      reply = JSON.parse(line)
    } catch {
      return
    }
    switch (reply.kind) {
      case "following":
        this.retry = FIRST_RETRY
        break
      case "message":
        this.deliver(reply)
        break
      case "replaced":
        this.isReplaced = true
        this.underWay = undefined
        this.child.stdin.end()
        break
      case "failed":
        this.complain(`tmux-task: ${reply.why}`)
        this.child.stdin.end()
        break
    }
  }

  async deliver({ id, message: { content: text }, options, isNew }) {
    if (this.underWay?.id === id) return
    // By its last line the message is recognized.
    const message = { id, mark: `(tmux-task ${id})` }
    this.underWay = message
    for (let wait = 500; this.underWay === message; wait = Math.min(wait * 2, 60_000)) {
      try {
        // It may have arrived before Copilot, this process or the follower ended.
        if (!isNew && (await this.has(message))) return this.received(message)
        if (isNew || !(await this.isQueued(message))) {
          await session.send({ prompt: `${text}\n${message.mark}`, mode: options.deliverAs === "steer" ? "immediate" : "enqueue" })
        }
        message.isGiven = true
        return
      } catch {
        isNew = false
        await new Promise((resolve) => setTimeout(resolve, wait))
      }
    }
  }

  /** Whether the session has the message. */
  async has({ mark }) {
    const events = await session.getEvents()
    return events.some((event) => event.type === "user.message" && event.data.content.includes(mark))
  }

  async isQueued({ mark }) {
    const { items } = await session.rpc.queue.pendingItems()
    return items.some((item) => item.displayText.includes(mark))
  }

  received(message) {
    if (this.underWay !== message) return
    this.underWay = undefined
    this.child.stdin.write(`${JSON.stringify({ received: { to: session.sessionId, id: message.id } })}\n`)
  }

  /** The session has a message. */
  stored(content) {
    // It is used here again, after another Copilot had it.
    if (this.isReplaced) {
      this.isReplaced = false
      this.start()
    }
    if (this.underWay && content.includes(this.underWay.mark)) this.received(this.underWay)
  }

  /** A turn has ended. A message that is no longer queued and not stored was removed by the user. */
  async turnEnded() {
    const message = this.underWay
    if (message?.isGiven && !(await this.isQueued(message))) this.received(message)
  }
}

const follower = new Follower()
session.on("user.message", (event) => follower.stored(event.data.content))
session.on("session.idle", () => follower.turnEnded().catch(() => {}))
