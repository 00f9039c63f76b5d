// tmux-task for Pi. Delivers the follow-ups of this session's tasks, shows notices and the status
// line, and lists the tasks with /tmux-tasks. What to deliver, and when again, is decided by
// `tmux-task agent pi`: this file only runs what must run inside Pi.
import type { ExtensionAPI, ExtensionCommandContext, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";

const PROGRAM = "tmux-task";
const STATUS_KEY = "tmux-task";

// How long to wait before a follower that ended is started again, in milliseconds. It doubles.
const FIRST_RETRY = 250;
const LONGEST_RETRY = 30_000;

// The longest title that a task session gets, in characters.
const LONGEST_TITLE = 100;

/** The git work tree that contains `dir`, else `dir`. */
function projectOf(dir: string): string {
  for (let at = dir; ; at = dirname(at)) {
    if (existsSync(join(at, ".git"))) return at;
    if (dirname(at) === at) return dir;
  }
}

export function taskSessionName(cwd: string, sessionId: string): string {
  const slug = basename(projectOf(cwd)).toLowerCase().replace(/[^a-z0-9_-]+/g, "-").replace(/^-+|-+$/g, "");
  return `pi-${slug || "root"}-${sessionId}`;
}

interface Result {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs tmux-task for the person at Pi's own UI: without an owner, unless one is given. */
function tmuxTask(session: string, args: string[], owner?: string): Promise<Result> {
  const env: NodeJS.ProcessEnv = { ...process.env };
  delete env.TMUX_TASK_OWNER;
  delete env.PI_SESSION_ID;
  if (owner) env.TMUX_TASK_OWNER = owner;
  return new Promise((resolve) => {
    execFile(PROGRAM, ["-s", session, ...args], { env, maxBuffer: 64 << 20 }, (error, stdout, stderr) => {
      const code = error ? (typeof error.code === "number" ? error.code : 1) : 0;
      resolve({ code, stdout, stderr: stderr || (error && !stdout ? error.message : "") });
    });
  });
}

/** Sets the title of a task session, or removes it. The start-up notices of the project's other sessions show it. */
async function setTitle(session: string, title: string) {
  // The session may have been renamed, and only the daemon knows the server for certain.
  const daemon = parse((await tmuxTask(session, ["daemon", "status", "--json"])).stdout);
  if (!daemon?.exists) return;
  // tmux takes a semicolon at the end of an argument for the end of the command.
  const value = title ? ["--", "@tmux_task_title", title.replace(/;$/, "\\;")] : ["-u", "--", "@tmux_task_title"];
  const args = ["-S", daemon.server, "set-option", "-t", `=${daemon.sessionName}:`, ...value];
  await new Promise((resolve) => execFile(process.env.TMUX_TASK_TMUX || "tmux", args, resolve));
}

/** Follows one session's tasks, from its start to its shutdown. */
class Follower {
  readonly session: string;
  private child?: ChildProcess;
  private timer?: NodeJS.Timeout;
  private retry = FIRST_RETRY;
  private isStopped = false;
  private hasComplained = false;
  private hasTaskSession = false;
  /** The title that the task session has got from here, and the work of setting it. */
  private title = "";
  private titling = Promise.resolve();
  /** The message that Pi has been given and that its session does not have yet. */
  private underWay?: { id: string; message: any; isQueued: boolean };

  constructor(
    private readonly pi: ExtensionAPI,
    private ctx: ExtensionContext,
    private readonly id: string,
  ) {
    this.session = taskSessionName(ctx.cwd, id);
    this.start();
  }

  private start() {
    const env = { ...process.env, PI_SESSION_ID: this.id };
    const child = spawn(PROGRAM, ["-s", this.session, "agent", "pi", "--id", this.id], { stdio: ["pipe", "pipe", "pipe"], env });
    this.child = child;
    let rest = "";
    let complaint = "";
    child.stdout!.setEncoding("utf8").on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        try {
          this.receive(line);
        } catch (error) {
          // An error in a callback would end Pi. Without a receipt the message comes again.
          complaint = String(error);
        }
      }
    });
    child.stderr!.setEncoding("utf8").on("data", (text: string) => (complaint = (complaint + text).slice(-2000)));
    child.stdin!.on("error", () => {});
    child.on("error", (error) => (complaint = `${PROGRAM}: ${error.message}`));
    child.on("close", () => {
      if (this.isStopped) return;
      if (complaint && !this.hasComplained && this.ctx.hasUI) {
        this.hasComplained = true;
        this.ctx.ui.notify(complaint.trim(), "warning");
      }
      this.timer = setTimeout(() => this.start(), this.retry);
      this.retry = Math.min(this.retry * 2, LONGEST_RETRY);
    });
  }

  private receive(line: string) {
    let reply: any;
    try {
      reply = JSON.parse(line);
    } catch {
      return;
    }
    if (this.isStopped) return;
    switch (reply.kind) {
      case "following":
        this.retry = FIRST_RETRY;
        this.noteTaskSession(false);
        break;
      case "message":
        // After a restart of the follower it comes again.
        if (this.underWay?.id === reply.id) break;
        if (!reply.isNew && this.has(reply.id)) {
          this.confirm(reply.id);
          break;
        }
        this.underWay = {
          id: reply.id,
          message: { ...reply.message, details: { ...reply.message.details, id: reply.id } },
          isQueued: !this.ctx.isIdle(),
        };
        this.pi.sendMessage(this.underWay.message, reply.options);
        break;
      case "notice":
        if (this.ctx.hasUI) this.ctx.ui.notify(reply.text, reply.level === "warning" ? "warning" : "info");
        break;
      case "status":
        if (this.ctx.hasUI) this.ctx.ui.setStatus(STATUS_KEY, reply.text ?? undefined);
        this.noteTaskSession(typeof reply.text === "string");
        break;
      case "failed":
        if (this.ctx.hasUI && !this.hasComplained) this.ctx.ui.notify(`tmux-task: ${reply.why}`, "warning");
        this.hasComplained = true;
        this.child?.stdin?.end();
        break;
      case "replaced":
        this.stop();
        break;
    }
  }

  /** A task session that comes into being has no title yet. */
  private noteTaskSession(exists: boolean) {
    this.hasTaskSession = exists;
    if (exists) this.showTitle();
    else this.title = "";
  }

  /** Gives the task session the name of the conversation, where it has another one. */
  showTitle() {
    const name = (this.pi.getSessionName() ?? "").replace(/[\s\p{Cc}]+/gu, " ").trim();
    const title = [...name].slice(0, LONGEST_TITLE).join("");
    if (!this.hasTaskSession || title === this.title) return;
    this.title = title;
    this.titling = this.titling.then(() => setTitle(this.session, title)).catch(() => {});
  }

  /** Whether the session has the message, from before Pi or the follower ended. */
  private has(id: string) {
    const entries: any[] = this.ctx.sessionManager.getEntries();
    return entries.some((entry) => entry.customType === "tmux-task-event" && entry.details?.id === id);
  }

  private confirm(id: unknown) {
    this.child?.stdin?.write(`${JSON.stringify({ received: { to: this.id, id } })}\n`);
  }

  /** Pi's session has the message: it is acknowledged, and the next one comes. */
  received(id: unknown) {
    if (id === undefined || this.underWay?.id !== id) return;
    this.underWay = undefined;
    this.confirm(id);
  }

  /** The user emptied Pi's queue: the message goes with the next prompt instead of a turn of its own. */
  settled(ctx: ExtensionContext) {
    if (this.underWay?.isQueued && !ctx.hasPendingMessages()) {
      this.underWay.isQueued = false;
      this.pi.sendMessage(this.underWay.message, { deliverAs: "nextTurn" });
    }
  }

  /** A second `session_start` of the same session has a context of its own. */
  use(ctx: ExtensionContext) {
    this.ctx = ctx;
  }

  stop() {
    this.isStopped = true;
    clearTimeout(this.timer);
    this.child?.stdin?.end();
    this.child?.kill();
  }
}

export default function (pi: ExtensionAPI) {
  let follower: Follower | undefined;
  let sessionId: string | undefined;

  pi.on("session_start", (_event, ctx) => {
    const id = ctx.sessionManager.getSessionId();
    // Pi's rpc mode reports the start of a new session twice.
    if (follower && sessionId === id) return follower.use(ctx);
    follower?.stop();
    sessionId = id;
    const session = taskSessionName(ctx.cwd, id);
    process.env.TMUX_TASK_SESSION = session;
    process.env.PI_TMUX_SESSION = session;
    process.env.TMUX_TASK_OWNER = `pi:${id}`;
    follower = new Follower(pi, ctx, id);
  });

  pi.on("message_end", (event) => {
    const message = event.message as any;
    if (message.customType === "tmux-task-event") follower?.received(message.details?.id);
  });

  pi.on("session_info_changed", () => follower?.showTitle());

  pi.on("agent_settled", (_event, ctx) => follower?.settled(ctx));

  pi.on("session_shutdown", async (event, ctx) => {
    const session = follower?.session;
    follower?.stop();
    follower = undefined;
    if (ctx.hasUI) ctx.ui.setStatus(STATUS_KEY, undefined);
    if (!session || event.reason === "reload") return;
    // Tasks that run go on, and so does their daemon.
    const status = await tmuxTask(session, ["status", "--json"]);
    const counts = parse(status.stdout);
    if (status.code === 0 && !(counts?.running > 0 || counts?.waiting > 0)) {
      await tmuxTask(session, ["daemon", "stop", "--cleanup"]);
    }
  });

  pi.registerCommand("tmux-tasks", {
    description: "List the tmux tasks of this session: logs, send, kill, rerun; prune-dead, kill-all [--yes]",
    handler: async (args, ctx) => {
      const id = ctx.sessionManager.getSessionId();
      await tasksCommand(taskSessionName(ctx.cwd, id), `pi:${id}`, args.trim(), ctx);
    },
  });
}

function parse(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const PRUNE = "prune-dead: remove the tasks that have ended";
const KILL_ALL = "kill-all: end the task session";
const ACTIONS = ["logs", "send", "kill", "rerun", "back"];

async function tasksCommand(session: string, owner: string, args: string, ctx: ExtensionCommandContext) {
  const report = (result: Result, done: string) =>
    result.code === 0 ? ctx.ui.notify(done, "info") : ctx.ui.notify(result.stderr.trim() || result.stdout.trim(), "warning");
  if (args === "prune-dead") return report(await tmuxTask(session, ["prune"]), "Removed the tasks that have ended.");
  if (/^kill-all(\s+--yes)?$/.test(args)) return killAll(session, ctx, report, args.endsWith("--yes"));
  while (true) {
    const tasks: any[] = parse((await tmuxTask(session, ["ls", "--json"])).stdout)?.tasks ?? [];
    if (tasks.length === 0) return ctx.ui.notify("This session has no tmux tasks.", "info");
    const lines = tasks.map(taskLine);
    const chosen = await ctx.ui.select(`tmux tasks of ${session}`, [...lines, PRUNE, KILL_ALL]);
    if (chosen === undefined) return;
    if (chosen === PRUNE) {
      report(await tmuxTask(session, ["prune"]), "Removed the tasks that have ended.");
    } else if (chosen === KILL_ALL) {
      return killAll(session, ctx, report, false);
    } else {
      await taskMenu(session, owner, tasks[lines.indexOf(chosen)], ctx, report);
    }
  }
}

function taskLine(task: any): string {
  const code = task.exitSignal ?? (task.dead ? `code ${task.exitCode ?? "unknown"}` : "");
  const seconds = task.startedAt ? Math.max(0, Math.round(((task.endedAt ?? Date.now()) - task.startedAt) / 1000)) : undefined;
  const age = seconds === undefined ? "" : seconds < 120 ? `${seconds}s` : seconds < 7200 ? `${Math.round(seconds / 60)}m` : `${Math.round(seconds / 3600)}h`;
  const lines: string[] = task.lastLines ?? String(task.outputPreview ?? "").split("\n");
  const last = task.waitingFor ?? lines.filter((line) => line.trim()).pop() ?? "";
  return [task.windowId, task.windowName, task.state, code, task.run ? `run ${task.run}` : "", age, task.currentCommand, last && `| ${last}`]
    .filter(Boolean)
    .join("  ")
    .slice(0, 200);
}

async function taskMenu(session: string, owner: string, task: any, ctx: ExtensionCommandContext, report: (result: Result, done: string) => void) {
  const name: string = task.windowName;
  const target: string = task.windowId;
  switch (await ctx.ui.select(`${target} ${name}: ${task.currentCommand ?? ""}`, ACTIONS)) {
    case "logs": {
      const result = await tmuxTask(session, ["logs", target, "-n", "500"]);
      if (result.code !== 0) return report(result, "");
      await ctx.ui.editor(`logs of ${name}`, result.stdout);
      return;
    }
    case "send": {
      const text = await ctx.ui.input(`send to ${name}`, task.waitingFor ?? "");
      if (text !== undefined) report(await tmuxTask(session, ["send", target, "--", text]), `Sent to ${name}.`);
      return;
    }
    case "kill":
      if (await ctx.ui.confirm(`Kill ${name}?`, String(task.currentCommand ?? ""))) {
        report(await tmuxTask(session, ["kill", target]), `Killed ${name}.`);
      }
      return;
    case "rerun": {
      // `currentCommand` is for people: its lines and arguments are folded into one line.
      const command = String(task.currentCommand ?? "");
      if (!task.dead && !(await ctx.ui.confirm(`Replace the live run of ${name}?`, command))) return;
      report(await tmuxTask(session, ["restart", target], owner), `Started ${name} again.`);
      return;
    }
  }
}

async function killAll(session: string, ctx: ExtensionCommandContext, report: (result: Result, done: string) => void, isConfirmed: boolean) {
  if (isConfirmed || (await ctx.ui.confirm("End the task session?", `All tasks of ${session} are ended.`))) {
    report(await tmuxTask(session, ["kill-all", "--yes"]), "Ended the task session.");
  }
}
