//! `doctor`: what was checked, what was found, and what to do about it.

use std::path::Path;
use std::time::Duration;

use super::args::Json;
use super::context::Context;
use super::failure::{Failure, Kind, OrFail};
use super::{ls, output};
use crate::model::text;
use crate::ops::{self, Behind, Check, EndsWith, Finding, OnPath, Severity, Subject, Survivor};
use crate::terminal::columns_of;
use crate::tmux::HookFault;
use crate::wire::{CheckResult, DoctorCheck, DoctorReport};

/// The maximum length of a message, in characters: it may contain a path.
const MAX_CHARS: usize = 4096;

/// The folder of the documentation.
const SERVICE: &str = "docs/service.md says how to run tmux-task as a service";

pub(super) async fn run(context: &Context, args: Json) -> Result<(), Failure> {
    // Each check has a time limit of its own.
    context.limit.lift();
    let checks = ops::examine(&context.choice()).await.or_fail("doctor")?;
    let report = report(&checks);
    if args.json {
        output::json(&report)?;
    } else {
        let lines = lines(&report);
        output::lines(lines.iter().map(String::as_str))?;
    }
    if report.failures > 0 {
        return Err(Failure::silent(Kind::Failed));
    }
    Ok(())
}

fn report(checks: &[Check]) -> DoctorReport {
    let count = |severity| {
        let is_counted = |check: &&Check| check.finding.severity() == severity;
        checks.iter().filter(is_counted).count()
    };
    DoctorReport {
        checks: checks.iter().map(result_of).collect(),
        warnings: count(Severity::Warn),
        failures: count(Severity::Fail),
    }
}

fn result_of(check: &Check) -> DoctorCheck {
    // Paths, names, and what programs print are untrusted.
    let one_line = |text: String| text::one_line(text.as_bytes(), MAX_CHARS);
    let (message, hint) = describe(&check.finding);
    DoctorCheck {
        check: name(check.subject),
        result: match check.finding.severity() {
            Severity::Ok => CheckResult::Ok,
            Severity::Warn => CheckResult::Warn,
            Severity::Fail => CheckResult::Fail,
        },
        message: one_line(message),
        hint: hint.map(one_line),
    }
}

fn lines(report: &DoctorReport) -> Vec<String> {
    let widths = report.checks.iter().map(|check| columns_of(check.check));
    let width = widths.max().unwrap_or_default();
    let mut lines = Vec::new();
    for DoctorCheck {
        check,
        result,
        message,
        hint,
    } in &report.checks
    {
        lines.push(format!("{:4}  {check:width$}  {message}", result.as_str()));
        let indent = " ".repeat(width + 8);
        lines.extend(hint.iter().map(|hint| format!("{indent}hint: {hint}")));
    }
    lines.push(format!(
        "{}, {}",
        counted(report.failures, "failure"),
        counted(report.warnings, "warning")
    ));
    lines
}

fn counted(number: usize, noun: &str) -> String {
    match number {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

/// Returns a check's name in the output. Programs rely on it.
fn name(subject: Subject) -> &'static str {
    match subject {
        Subject::Program => "program",
        Subject::Tmux => "tmux",
        Subject::Server => "server",
        Subject::Locale => "locale",
        Subject::Configuration => "config",
        Subject::State => "state",
        Subject::Runtime => "runtime",
        Subject::Desktop => "desktop",
        Subject::Ptrace => "ptrace",
        Subject::Descriptors => "descriptors",
        Subject::Logout => "logout",
        Subject::Session => "session",
        Subject::Daemon => "daemon",
        Subject::Hooks => "hooks",
        Subject::Consumers => "consumers",
        Subject::Sinks => "sinks",
        Subject::Leftovers => "leftovers",
    }
}

/// Returns what was found, and what to do about it.
#[expect(
    clippy::too_many_lines,
    reason = "a table: one sentence or two for each finding"
)]
fn describe(finding: &Finding) -> (String, Option<String>) {
    let fine = |message: String| (message, None);
    let advised = |message: String, hint: &str| (message, Some(hint.to_owned()));
    match finding {
        Finding::NoAnswer { within } => advised(
            format!("no answer within {} s", within.as_secs()),
            "something below it hangs: a disk, tmux or a service; the other checks show which",
        ),
        Finding::Program { path, on_path } => describe_program(path, on_path),
        Finding::Tmux { version } => fine(format!("tmux {version}")),
        Finding::TmuxMissing { program, why } => advised(
            format!("cannot run `{}`: {why}", program.display()),
            "install tmux 3.2 or newer, or name it with --tmux or $TMUX_TASK_TMUX",
        ),
        Finding::NotTmux { program } => advised(
            format!("`{}` is not tmux: it prints no version", program.display()),
            "name tmux 3.2 or newer with --tmux or $TMUX_TASK_TMUX",
        ),
        Finding::TmuxTooOld { version } => advised(
            format!("tmux {version} is too old"),
            "install tmux 3.2 or newer, or name it with --tmux or $TMUX_TASK_TMUX",
        ),
        Finding::Server { pid, version } => {
            let version = version
                .as_deref()
                .map(|version| format!(", version {version}"));
            let pid = pid.map_or_else(|| "running".to_owned(), |pid| format!("pid {pid}"));
            fine(format!("{pid}{}", version.unwrap_or_default()))
        }
        Finding::ServerOfOtherVersion { server, program } => advised(
            format!("the server is tmux {server}, the program is tmux {program}"),
            "end the server when its sessions are done (`tmux kill-server`), or name the older \
             program with --tmux",
        ),
        Finding::NoServer { socket } => fine(format!(
            "none runs on {}; the first task starts one",
            socket.display()
        )),
        Finding::ServerSilent { pid, is_stopped } => {
            describe_silent("the tmux server", *pid, *is_stopped, None)
        }
        Finding::ServerRefuses { why } => advised(
            format!("cannot be used: {why}"),
            "-L and -S name a server, as in tmux",
        ),
        Finding::Utf8Locale { variable, value } => fine(format!("{variable}={value}")),
        Finding::OtherLocale(set) => {
            let message = match set {
                Some((variable, value)) => format!("{variable}={value} is not UTF-8"),
                None => "neither LC_ALL, LC_CTYPE nor LANG is set".to_owned(),
            };
            let hint = "set LANG to a locale of UTF-8, such as C.UTF-8: tasks inherit it, and many \
                        programs print `?` or `_` without one";
            advised(message, hint)
        }
        Finding::Configuration(None) => fine("no file; the defaults apply".to_owned()),
        Finding::Configuration(Some(path)) => fine(path.display().to_string()),
        Finding::BadConfiguration { why } => advised(
            why.clone(),
            "correct the file: no daemon starts with it, and one that runs keeps its settings; \
             `tmux-task config example` describes the keys",
        ),
        Finding::Folder { path, free } => {
            fine(format!("{}, {} free", path.display(), bytes(*free)))
        }
        // The reason contains what to do.
        Finding::BadFolder { why } => fine(why.clone()),
        Finding::ReadOnly { path, why } => advised(
            format!("cannot write to {}: {why}", path.display()),
            "change its owner or mode, or name other folders with $TMUX_TASK_STATE_DIR and \
             $TMUX_TASK_RUNTIME_DIR",
        ),
        Finding::DiskFull { path, free, .. } => advised(
            format!("{} free on the disk of {}", bytes(*free), path.display()),
            "make room: what cannot be written waits in memory, and its readers with it",
        ),
        Finding::Desktop { service } => fine(format!("notices are shown by {service}")),
        Finding::DesktopOff => fine("notices are not shown on the desktop".to_owned()),
        Finding::NoDesktop { why } => advised(
            why.clone(),
            "notices are shown by tmux only, where the configuration says so; events and \
             follow-ups do not depend on it",
        ),
        Finding::Ptrace(None) => fine("the kernel hides no process of yours".to_owned()),
        Finding::Ptrace(Some(value)) => fine(format!("ptrace_scope is {value}")),
        Finding::PtraceHidden(value) => advised(
            format!("ptrace_scope is {value}: the kernel hides what tasks are blocked in"),
            "tasks that wait without a prompt may be missed; `sysctl kernel.yama.ptrace_scope=1` \
             shows them",
        ),
        Finding::Descriptors { soft, hard } => {
            let limit = |limit: &Option<u64>| {
                limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
            };
            fine(format!(
                "soft limit {}, hard limit {}",
                limit(soft),
                limit(hard)
            ))
        }
        Finding::FewDescriptors { hard } => advised(
            format!("the hard limit is {hard}"),
            "raise it (`ulimit -Hn`, limits.conf): a daemon needs one for each task and up to two \
             for each reader",
        ),
        Finding::ServerDescriptors { open, limit } => advised(
            format!("the tmux server has {open} of {limit} in use"),
            "close windows, or start the server with a higher limit (`ulimit -n`)",
        ),
        Finding::SurvivesLogout => fine("tasks survive the end of the login".to_owned()),
        Finding::EndsWithLogin { survivor, with } => describe_logout(*survivor, *with),
        Finding::Session { name } => fine(format!("`{name}`")),
        Finding::NoSession { name } => fine(format!(
            "`{name}` does not exist; its first task creates it"
        )),
        Finding::SessionUnknown { why } => advised(
            why.clone(),
            "only the machine was checked; the checks above may say why",
        ),
        Finding::Daemon { pid } => fine(format!("pid {pid}, of this version")),
        Finding::NoDaemonNeeded => fine("none runs; the first task starts one".to_owned()),
        Finding::NoDaemon { is_forbidden } => {
            let hint = if *is_forbidden {
                "start one with `tmux-task daemon --detach`: $TMUX_TASK_NO_AUTOSTART keeps \
                 commands from doing so"
            } else {
                "start one with `tmux-task daemon --detach`; `run`, `wait` and `feed --follow` \
                 do so, too"
            };
            advised("none runs: nothing is recorded".to_owned(), hint)
        }
        Finding::StaleSocket { path, is_needed } => {
            let message = format!("none runs; one that was killed left {}", path.display());
            if *is_needed {
                let hint = "start one with `tmux-task daemon --detach`; it replaces the socket";
                advised(message, hint)
            } else {
                fine(message)
            }
        }
        Finding::DaemonUnreachable { socket } => advised(
            format!("one runs and does not listen on {}", socket.display()),
            "it is starting or stopping, or its socket was deleted: then it makes another within \
             seconds; ask again",
        ),
        Finding::DaemonSilent { pid, is_stopped } => describe_silent(
            "the daemon",
            *pid,
            *is_stopped,
            Some("and the next command starts another; nothing that was recorded is lost"),
        ),
        Finding::DaemonRefuses { why } => advised(
            why.clone(),
            "`tmux-task daemon` in the foreground shows what keeps it from starting",
        ),
        Finding::DaemonOfOtherVersion { version, is_newer } => {
            let version = version.as_deref().unwrap_or("another version");
            let hint = if *is_newer {
                "update this program"
            } else {
                ops::STOP_OLDER_DAEMON
            };
            advised(
                format!(
                    "is {version}, this program is {}",
                    env!("CARGO_PKG_VERSION")
                ),
                hint,
            )
        }
        Finding::DaemonProblem(problem) => advised(
            problem.clone(),
            "`tmux-task daemon status` shows when it is over, and the path of the log",
        ),
        Finding::OtherConfiguration { changed, removed } => {
            let parts = [("", changed), ("removed: ", removed)]
                .into_iter()
                .filter(|(_, keys)| !keys.is_empty())
                .map(|(what, keys)| format!("{what}{}", keys.join(", ")));
            let parts: Vec<String> = parts.collect();
            advised(
                format!(
                    "the daemon does not have the present settings yet: {}",
                    parts.join("; ")
                ),
                ops::APPLY_CONFIG,
            )
        }
        Finding::OtherConfigurationFile { of_daemon, here } => {
            let shown = |file: &Option<String>| file.clone().unwrap_or_else(|| "none".to_owned());
            advised(
                format!(
                    "the daemon has read the configuration {}, here it is {}",
                    shown(of_daemon),
                    shown(here)
                ),
                "compare $TMUX_TASK_CONFIG and $XDG_CONFIG_HOME; after `tmux-task daemon stop` the \
                 next command starts a daemon with its own",
            )
        }
        Finding::Hooks => fine("in place".to_owned()),
        Finding::HookFault(fault) => describe_hook(fault),
        Finding::Consumers { number: 0, .. } => fine("none".to_owned()),
        Finding::Consumers { number, behind } => {
            let behind: Vec<String> = behind
                .iter()
                .map(|(name, of_it)| format!("`{name}` is {}", behind_text(*of_it)))
                .collect();
            fine(if behind.is_empty() {
                format!("{number}, none behind")
            } else {
                format!("{number}, none forgotten: {}", behind.join(", "))
            })
        }
        Finding::StuckConsumer {
            name,
            behind,
            reader,
        } => advised(
            format!(
                "`{name}`: {}, and process {reader} reads it without acknowledging",
                behind_text(*behind)
            ),
            "if its client is not in the middle of a turn, restart the client",
        ),
        Finding::Sink {
            name,
            delivered,
            failed,
            behind,
        } => {
            let failed = match failed {
                0 => String::new(),
                n => format!(", {} before", counted_failures(*n)),
            };
            fine(format!(
                "`{name}`: {delivered} delivered, {}{failed}",
                behind_text(*behind)
            ))
        }
        Finding::StuckSink {
            name,
            behind,
            failure: Some((why, ago)),
        } => advised(
            format!(
                "`{name}`: {}; the last attempt failed {} ago: {why}",
                behind_text(*behind),
                age(*ago)
            ),
            "the record is repeated until the sink takes it (exit code 0, or a status from 200 to \
             299); correct its program or its table `sink`",
        ),
        Finding::StuckSink {
            name,
            behind,
            failure: None,
        } => advised(
            format!(
                "`{name}`: {}, and no attempt has failed",
                behind_text(*behind)
            ),
            "its program or its peer is slow; the key `timeout` ends a delivery that hangs",
        ),
        Finding::ForgottenConsumer {
            name,
            lag,
            held,
            unused,
        } => {
            let kept = match held {
                0 => String::new(),
                held => format!("; {} of the feed are kept for it", bytes(*held)),
            };
            let unused = age(*unused);
            let hint = format!("`tmux-task consumer rm {name}` forgets it, if nobody needs it");
            let message =
                format!("`{name}` was not used for {unused} and has {lag} records to read{kept}");
            advised(message, &hint)
        }
        Finding::Leftovers { folders: 0 } => fine("no state of sessions that are gone".to_owned()),
        Finding::Leftovers { folders } => fine(format!(
            "state of {folders} sessions that are gone; `tmux-task prune --state` removes it"
        )),
        Finding::LargeLeftovers {
            folders,
            bytes: size,
        } => advised(
            format!(
                "the state of {folders} sessions that are gone takes {}",
                bytes(*size)
            ),
            "`tmux-task prune --state` lists it and removes what nobody needs",
        ),
        Finding::BadConsumers { why } => advised(
            why.clone(),
            "the file is in the folder `consumers` of the session's state; remove it to forget \
             the consumer",
        ),
    }
}

fn describe_program(path: &Path, on_path: &OnPath) -> (String, Option<String>) {
    let version = env!("CARGO_PKG_VERSION");
    let message = format!("tmux-task {version}, {}", path.display());
    let hint = match on_path {
        OnPath::This => None,
        OnPath::Other(other) => Some(format!(
            "a shell finds {} first, and tmux-task-run calls that one; remove it, or change PATH",
            other.display()
        )),
        OnPath::None => Some(
            "it is not on PATH: tmux-task-run finds it only where it installs itself, or by TMUX_TASK_PROGRAM"
                .to_owned(),
        ),
    };
    (message, hint)
}

fn describe_silent(
    who: &str,
    pid: Option<u32>,
    is_stopped: bool,
    after_end: Option<&str>,
) -> (String, Option<String>) {
    let Some(pid) = pid else {
        return (format!("{who} does not answer"), None);
    };
    if is_stopped {
        let message = format!("{who} (pid {pid}) does not answer: it is stopped");
        return (message, Some(format!("`kill -CONT {pid}` resumes it")));
    }
    let hint = match after_end {
        Some(after) => format!("`kill {pid}` ends it, {after}"),
        None => "the cause is unknown; ask again when the machine is less busy".to_owned(),
    };
    (format!("{who} (pid {pid}) does not answer"), Some(hint))
}

fn describe_logout(survivor: Survivor, with: EndsWith) -> (String, Option<String>) {
    let who = match survivor {
        Survivor::Server => "the tmux server, with all tasks,",
        Survivor::Daemon => "the daemon",
        Survivor::Next => "what is started here",
    };
    match with {
        EndsWith::Login => (
            format!("{who} ends with this login: systemd ends its processes (KillUserProcesses)"),
            Some(format!("start tmux in a scope of its own; {SERVICE}")),
        ),
        EndsWith::LastLogin => (
            format!("{who} ends with your last login"),
            Some(format!("`loginctl enable-linger` keeps it; {SERVICE}")),
        ),
    }
}

fn describe_hook(fault: &HookFault) -> (String, Option<String>) {
    match fault {
        HookFault::Missing { hook } => (
            format!("the hook `{hook}` of tmux-task is gone: events come late"),
            Some(format!(
                "`set-hook -g {hook}` without an index removes it: give yours an index, such as \
                 `{hook}[0]`; then `tmux-task daemon stop`, and the next command starts one that \
                 sets it again"
            )),
        ),
        HookFault::Hidden { hook, window } => {
            let (place, scope) = match window {
                Some(window) => (format!("window {window}"), format!("-w -t {window}")),
                None => ("the session".to_owned(), "-t SESSION".to_owned()),
            };
            (
                format!("a hook `{hook}` on {place} hides that of tmux-task: events come late"),
                Some(format!(
                    "set it for all with `set-hook -g`, and remove it here: `tmux set-hook -u \
                     {scope} {hook}`"
                )),
            )
        }
        HookFault::BellsOff { window } => match window {
            Some(window) => (
                format!("bells of window {window} are off"),
                Some(format!("`tmux set-option -w -t {window} monitor-bell on`")),
            ),
            None => (
                "bells of the session are off".to_owned(),
                Some("`tmux set-option -t SESSION bell-action any`".to_owned()),
            ),
        },
        HookFault::DeadPaneNotKept { window } => (
            format!("window {window} closes when its run ends, and its last output with it"),
            Some(format!(
                "`tmux set-option -w -t {window} remain-on-exit on`"
            )),
        ),
    }
}

/// Returns how far a reader is behind: `3 records behind, the first for 5m`.
fn behind_text(Behind { lag, since }: Behind) -> String {
    let records = match lag {
        0 => return "nothing behind".to_owned(),
        1 => "1 record".to_owned(),
        n => format!("{n} records"),
    };
    let since = since.map(|since| format!(", the first for {}", age(since)));
    format!("{records} behind{}", since.unwrap_or_default())
}

fn counted_failures(number: u64) -> String {
    match number {
        1 => "1 failure".to_owned(),
        n => format!("{n} failures"),
    }
}

/// Returns a size with its unit.
fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (size, unit) in UNITS {
        if bytes >= size {
            return format!("{} {unit}", bytes / size);
        }
    }
    format!("{bytes} bytes")
}

fn age(duration: Duration) -> String {
    ls::age(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(subject: Subject, finding: Finding) -> Check {
        Check { subject, finding }
    }

    #[test]
    fn each_check_is_a_line_and_what_to_do_stands_below() {
        let checks = [
            check(
                Subject::Tmux,
                Finding::Tmux {
                    version: "3.5a".to_owned(),
                },
            ),
            check(Subject::Locale, Finding::OtherLocale(None)),
            check(
                Subject::Daemon,
                Finding::DaemonSilent {
                    pid: Some(7),
                    is_stopped: true,
                },
            ),
            check(
                Subject::State,
                Finding::Folder {
                    path: "/home/ana/.local/state/tmux-task".into(),
                    free: 3 << 30,
                },
            ),
        ];
        let report = report(&checks);
        assert_eq!(
            lines(&report),
            [
                "ok    tmux    tmux 3.5a",
                "warn  locale  neither LC_ALL, LC_CTYPE nor LANG is set",
                "              hint: set LANG to a locale of UTF-8, such as C.UTF-8: tasks inherit it, and many programs print `?` or `_` without one",
                "fail  daemon  the daemon (pid 7) does not answer: it is stopped",
                "              hint: `kill -CONT 7` resumes it",
                "ok    state   /home/ana/.local/state/tmux-task, 3 GiB free",
                "1 failure, 1 warning",
            ]
        );
        assert_eq!((report.warnings, report.failures), (1, 1));
    }

    #[test]
    fn what_others_have_written_is_one_clean_line() {
        let finding = Finding::TmuxMissing {
            program: "tm\u{1b}[31mux\nfail".into(),
            why: "a\tb\u{202e}".to_owned(),
        };
        let result = result_of(&check(Subject::Tmux, finding));
        assert!(
            !result
                .message
                .contains(|c: char| c.is_control() || c == '\u{202e}')
        );
    }

    #[test]
    fn sizes_have_units() {
        let shown = [512, 1 << 20, (5 << 30) + 1].map(bytes);
        assert_eq!(shown, ["512 bytes", "1 MiB", "5 GiB"]);
    }
}
