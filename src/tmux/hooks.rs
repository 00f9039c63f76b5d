//! Hooks inside the tmux server: they count bells, record deaths and wake the daemon; and the checks for
//! `doctor` whether they can run.
//!
//! Hooks are hints. A hook that the user set on a session or a window overrides ours.

use super::client::{Connection, if_false, if_true};
use super::error::TmuxError;
use super::hook_wakeups::{MOST_REPORTED, OF_BELLS, REPORTED, channel, clear_reported};
use super::pane_origin::{IS_BARE, IS_OF_LAUNCHER};
use super::rows::{BELLS, noted_formats};
use super::window_options::{RUN, is_own, own_format, own_value};
use crate::model::{Error, PaneId, SessionId, WindowId};
use crate::rules::protocol::rows::Death;
use crate::rules::protocol::{Command, control_line};

/// Marks a session as supervised. Contains the pid of its daemon, as an own value: others would be
/// marked, and none claimed, where it is set for all sessions.
pub(super) const MARK: &str = "@tmux_task_daemon";
/// A session option with what tells the process of that daemon from a later one with its pid.
const IDENTITY: &str = "@tmux_task_daemon_process";
/// A session option with the command that wakes the session's daemon.
const CALL: &str = "@tmux_task_call";
/// A session option with the key of the folder with the session's files, as an own value. It stays when
/// the daemon leaves: the next one continues from there, whatever the session's name is by then.
pub(super) const FOLDER: &str = "@tmux_task_folder";
/// A session option with the death record.
const DEATHS: &str = "@tmux_task_deaths";
/// A session option with the total number of deaths, so that each has a number.
const DEATH_COUNT: &str = "@tmux_task_death_count";
const BELL_HOOK: &str = "alert-bell[9010]";
const DEATH_HOOK: &str = "pane-died[9011]";
const LINK_HOOK: &str = "window-linked[9012]";
/// From tmux 3.8 on. It also runs when a pane is respawned.
const SPAWN_HOOK: &str = "pane-created[9013]";
/// A global option with the version of the installed hooks.
const VERSION: &str = "@tmux_task_hooks";
/// The version of the hooks below, to be raised when their text changes. Later hooks must continue
/// to write what the daemons of earlier versions read, or use other names and numbers: daemons of
/// several versions share them.
const OUR_VERSION: u32 = 7;
/// A pane option with the pane's pid: tmux 3.8 has forgotten the pid when the death is recorded.
const PROCESS: &str = "@tmux_task_pid";

/// Marks the session as supervised by the daemon with this pid and identity, enables its bells, and sets the
/// hooks of the server. The hooks are the same for every daemon, act on marked sessions only, and
/// do not change the user's own hooks. Hooks of a later version are not replaced; missing ones are
/// added. Returns whether respawns are reported, as by tmux from 3.8 on, which has no need to be nudged
/// either.
pub(crate) async fn install(
    connection: &mut Connection<'_>,
    session: SessionId,
    daemon_pid: u32,
    identity: &str,
) -> Result<bool, TmuxError> {
    let target = format!("{session}:");
    let on_session =
        |name: &str, value: &str| Command::new("set-option").args(["-t", &target, name, value]);
    let hook_if = |condition: &str, scope: &str, name: &str, commands: &[Command]| {
        let set = Command::new("set-hook").args([scope, name, &run_if(condition, commands)]);
        unless_current(session, &format!("#{{{name}}}"), set)
    };
    let hook = |scope: &str, name: &str, commands: &[Command]| {
        hook_if(&is_own(MARK), scope, name, commands)
    };
    let [report, wake] = [report("#{window_id}"), wake()];
    let note_ringing = note_ringing();
    let on_spawn = [note_process(None), report.clone(), wake.clone()];
    let on_spawn = hook("-gw", SPAWN_HOOK, &on_spawn);
    let is_set = Command::new("show-options").args(["-gwqv", SPAWN_HOOK]);
    let frames = connection.frames(&[on_spawn, is_set]).await?;
    let is_set = frames.get(1).filter(|is_set| is_set.ok);
    let reports_respawns = is_set.is_some_and(|is_set| !is_set.text().trim().is_empty());
    if reports_respawns {
        // Before the mark, because the notes of an earlier daemon may be outdated.
        let list = Command::new("list-panes").args(["-s", "-t", &target, "-F", "#{pane_id}"]);
        let listed = connection.print(list).await?;
        let panes = listed.lines().filter_map(|pane| pane.parse().ok());
        let noting = panes.map(|pane| vec![note_process(Some(pane))]);
        each(connection, noting.collect()).await?;
    }
    let signal = Command::new("wait-for").args(["-S", &channel(&session.to_string())]);
    let on_bell = [count_bell(), note_ringing, wake.clone()];
    let on_death = [
        count_death(),
        record_death(),
        Command::new("set-option").args(["-puq", PROCESS]),
        report,
        wake,
    ];
    let note_version = Command::new("set-option").args(["-g", VERSION, &OUR_VERSION.to_string()]);
    let formats = noted_formats().map(|(name, format)| on_session(name, format));
    let commands = [
        on_session(CALL, &control_line(&[signal])),
        on_session(MARK, &own_value(session, &daemon_pid.to_string())),
        on_session(IDENTITY, identity),
        on_session("bell-action", "any"),
        hook_if(&is_of_marked_window(), "-g", BELL_HOOK, &on_bell),
        hook_if(&is_of_dead_pane(), "-gw", DEATH_HOOK, &on_death),
        hook("-g", LINK_HOOK, &[keep_dead_panes()]),
        // Last, so that a line that fails half-way does not count as complete.
        unless_current(session, "1", note_version),
    ];
    let marked = connection.run(&[&formats[..], &commands].concat()).await;
    marked.map(|_| reports_respawns)
}

/// Clears the deaths of this record, which were reported, from the session's death record. Those that were
/// added since stay. A session that is gone is not an error.
pub(crate) async fn forget_deaths(
    connection: &mut Connection<'_>,
    session: SessionId,
    record: &str,
) -> Result<(), TmuxError> {
    let deaths = Death::parse_record(record);
    let Some(last) = deaths.iter().rev().find_map(|death| death.number) else {
        return Ok(());
    };
    let target = format!("{session}:");
    let cut = Command::new("set-option").args(["-F", "-t", &target, DEATHS, &deaths_after(last)]);
    match connection.run(&[cut]).await {
        Err(error) if error.is_target_missing() => Ok(()),
        answer => answer.map(drop),
    }
}

/// Returns a format for the death record without the deaths up to this number; for the whole record if
/// it does not contain that one.
///
/// (`if-shell` around a command that unsets the record would leak memory of tmux, and the record of a
/// busy session would never be the same as the one that was read.)
fn deaths_after(number: u64) -> String {
    // tmux takes a plain semicolon for the end of the pattern.
    let end = "#{l:;}";
    let field = format!("[^ {end}]* ");
    let entry = format!("{}{number} [^{end}]*{end}", field.repeat(6));
    format!("#{{s/^(.*{end})?{entry}//:{DEATHS}}}")
}

/// Removes the session's mark, and the hooks when no session of the server is marked by a daemon that may
/// run, as `may_run` says by its pid and identity. A server that is gone is not an error.
pub(crate) async fn uninstall(
    connection: &mut Connection<'_>,
    session: Option<SessionId>,
    may_run: impl Fn(u32, &str) -> bool,
) -> Result<(), TmuxError> {
    let format = format!("{} #{{=200:{IDENTITY}}}", own_format(MARK));
    let list = Command::new("list-sessions").args(["-F", &format]);
    let Some(listed) = TmuxError::if_there(connection.print(list).await)? else {
        return Ok(());
    };
    let mut commands: Vec<Command> = listed
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ' ');
            let id: SessionId = fields.next()?.parse().ok()?;
            let pid: u32 = fields.next()?.parse().ok()?;
            let identity = fields.next().unwrap_or_default();
            (Some(id) == session || !may_run(pid, identity)).then(|| unmark(id, pid))
        })
        .collect();
    let unhook = |scope: &str, hook: &str| Command::new("set-hook").args([scope, hook]);
    let removal = [
        unhook("-gu", BELL_HOOK),
        unhook("-guw", DEATH_HOOK),
        unhook("-gu", LINK_HOOK),
        Command::new("set-option").args(["-gqu", VERSION]),
    ];
    // Checked in the line that removes them, so that a daemon that starts meanwhile keeps its hooks.
    let when_none = |removal: &[Command]| {
        let marks = format!("#{{S:{}}}", own_format(MARK));
        Command::new("if-shell").args(["-F", &marks, "", &control_line(removal)])
    };
    commands.push(when_none(&removal));
    connection.run(&commands).await?;
    // Separate from the others, because tmux before 3.8 refuses it.
    let removal = when_none(&[unhook("-guw", SPAWN_HOOK)]);
    connection.frames(&[removal]).await.map(drop)
}

/// Removes the mark if it has not changed since it was read.
fn unmark(session: SessionId, pid: u32) -> Command {
    let target = format!("{session}:");
    let unset = |name: &str| Command::new("set-option").args(["-uq", "-t", &target, name]);
    let own = [MARK, IDENTITY, CALL].into_iter();
    let own = own.chain(noted_formats().map(|(name, _)| name)).map(unset);
    // Deaths that were not reported stay for the next daemon.
    let unset_if_empty = if_false(&target, &format!("#{{{DEATHS}}}"), &[unset(DEATHS)]);
    let own = own.chain([clear_reported(&target), unset_if_empty]);
    let mark = own_value(session, &pid.to_string());
    let is_same = format!("#{{==:{},{mark}}}", own_format(MARK));
    if_true(&target, &is_same, &own.collect::<Vec<_>>())
}

/// What is set on a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowSetting {
    pub(crate) window: WindowId,
    /// Whether it keeps its dead pane and monitors bells from now on.
    pub(crate) prepares: bool,
    /// The number of its run.
    pub(crate) run: Option<u32>,
}

/// Sets options of windows. Windows that are gone are skipped.
pub(crate) async fn set_window_options(
    connection: &mut Connection<'_>,
    settings: &[WindowSetting],
) -> Result<(), TmuxError> {
    let commands = |set: &WindowSetting| {
        let command = |name: &str, value: &str| {
            Command::new("set-option").args(["-w", "-t", &set.window.to_string(), name, value])
        };
        let prepared = ["remain-on-exit", "monitor-bell"].map(|name| command(name, "on"));
        let prepared = prepared.into_iter().filter(|_| set.prepares);
        let run = set.run.map(|run| command(RUN, &run.to_string()));
        prepared.chain(run).collect()
    };
    each(connection, settings.iter().map(commands).collect()).await
}

/// Runs all groups of commands as one line. If a target is gone and the rest of the line did not run, runs
/// each group as its own line.
async fn each(connection: &mut Connection<'_>, groups: Vec<Vec<Command>>) -> Result<(), TmuxError> {
    let frames = connection.frames(&groups.concat()).await?;
    if frames.iter().any(|frame| !frame.ok) {
        for group in &groups {
            connection.frames(group).await?;
        }
    }
    Ok(())
}

/// Runs a command unless the server's hooks are of our version or a later one and the format
/// `is_there` is true. tmux decides in the line that sets them, because two daemons may start at
/// once.
fn unless_current(session: SessionId, is_there: &str, command: Command) -> Command {
    let is_current = format!("#{{&&:{is_there},#{{e|>=:#{{{VERSION}}},{OUR_VERSION}}}}}");
    if_false(&format!("{session}:"), &is_current, &[command])
}

/// In braces the commands are parsed once, with the hook; as a word they would be parsed at each
/// run.
fn run_if(condition: &str, commands: &[Command]) -> String {
    let ask = control_line(&[Command::new("if-shell").args(["-F", condition])]);
    format!("{ask} {{ {} }}", control_line(commands))
}

/// Whether the session of a hook is supervised and the hook runs for the window that it is about.
/// If that window is closed by then, tmux runs the hook for the current window of another session.
fn is_of_marked_window() -> String {
    let is_its_own = "#{?hook_window,#{==:#{hook_window},#{window_id}},1}";
    format!("#{{&&:{},{is_its_own}}}", is_own(MARK))
}

/// Whether the session of a hook is supervised and the hook runs for the pane that it is about, which
/// is still dead. If that pane is closed by then, tmux runs the hook for another one; if it has been
/// respawned, its process is not the one that died.
fn is_of_dead_pane() -> String {
    let is_its_own = "#{?hook_pane,#{==:#{hook_pane},#{pane_id}},1}";
    let is_marked = is_own(MARK);
    format!("#{{&&:{is_marked},#{{&&:#{{pane_dead}},{is_its_own}}}}}")
}

/// Stores which window is reported, for the daemon that [`wake`] wakes.
fn report(window: &str) -> Command {
    let reported = format!("#{{=-{MOST_REPORTED}:#{{{REPORTED}}}{window};}}");
    Command::new("set-environment").args(["-hF", REPORTED, &reported])
}

/// The same for a window whose bell has just been counted, with the count: a shell that rings and
/// exits closes its window, and with it the count, before a look can read it.
fn note_ringing() -> Command {
    report(&format!("#{{s/ /{OF_BELLS}/:{BELLS}}}"))
}

/// Wakes the session's daemon.
///
/// It runs the command in the session's option at once. (`run-shell -C` could insert the session as
/// well, but it delays the server's queue until the next turn of its loop. A window that is created
/// in that turn waits for its own hook, and is gone before it runs if its process ends at once.)
fn wake() -> Command {
    Command::new("set-hook").args(["-R", CALL])
}

/// Keeps the dead pane of a task that others start and that may end before it is observed. A window
/// without a command is a shell: its options belong to its user.
fn keep_dead_panes() -> Command {
    let keep = Command::new("set-option").args(["-w", "remain-on-exit", "on"]);
    Command::new("if-shell").args(["-F", &IS_BARE, "", &control_line(&[keep])])
}

/// Counts a bell of the window that rang.
fn count_bell() -> Command {
    let count = "#{?#{m:#{window_id} *,#{@tmux_task_bells}},#{s/^[^ ]* //:@tmux_task_bells},0}";
    let next = format!("#{{window_id}} #{{e|+:{count},1}}");
    Command::new("set-option").args(["-wF", BELLS, &next])
}

fn count_death() -> Command {
    let next = format!("#{{e|+:#{{?{DEATH_COUNT},#{{{DEATH_COUNT}}},0}},1}}");
    Command::new("set-option").args(["-F", DEATH_COUNT, &next])
}

/// Stores a pane's pid on the pane, by default on the hook's own pane.
fn note_process(pane: Option<PaneId>) -> Command {
    let target = pane.map(|pane| ["-t".to_owned(), pane.to_string()]);
    Command::new("set-option")
        .arg("-pF")
        .args(target.into_iter().flatten())
        .args([PROCESS, "#{pane_pid}"])
}

/// The last 16000 characters are about two hundred deaths between two looks. tmux 3.8 does not
/// report the pid of a dead pane, so it was stored before. Where that was not possible, the number
/// distinguishes two deaths that are otherwise equal, and the terminal distinguishes a process from
/// the live one that it replaced. The other fields describe a task whose window is closed before a
/// look contains it: names and owners are included only if they contain none of the record's own
/// characters.
fn record_death() -> Command {
    let plain = |characters: &str, option: &str| {
        format!("#{{?#{{m/r:^[{characters}]+$,#{{{option}}}}},#{{{option}}},}}")
    };
    // Other windows may inherit them.
    let of_launcher = |format: &str| format!("#{{?{},{format},}}", *IS_OF_LAUNCHER);
    let entry = [
        "#{window_id}",
        "#{pane_id}",
        "#{?pane_pid,#{pane_pid},#{@tmux_task_pid}}",
        "#{pane_dead_status}",
        "#{pane_dead_signal}",
        "#{pane_dead_time}",
        "#{@tmux_task_death_count}",
        "#{b:pane_tty}",
        &plain("A-Za-z0-9._-", "window_name"),
        &of_launcher(&plain("0-9", "@tmux_task_run")),
        &of_launcher(&plain("A-Za-z0-9._:@/-", "@tmux_task_owner")),
        "#{P:#{pane_id}.}",
        &format!("#{{?{},shell,}}", *IS_BARE),
    ];
    let record = format!("#{{=-16000:#{{{DEATHS}}}{};}}", entry.join(" "));
    Command::new("set-option").args(["-F", DEATHS, &record])
}

/// Returns what keeps events of a supervised session from being reported at once, with what the user can do
/// about it.
pub(crate) async fn check_hooks(
    connection: &mut Connection<'_>,
    session: SessionId,
) -> Result<Vec<Error>, TmuxError> {
    let target = format!("{session}:");
    let global = |scope: &str, hook: &str| Command::new("show-options").args([scope, hook]);
    // A format finds a hook by its index unless a window or the session has hooks of that name.
    let is_found = |hook: &str| format!("#{{?#{{{hook}}},1,0}}");
    let of_window = format!(
        "#{{window_id}} #{{monitor-bell}} #{{remain-on-exit}} {} {}",
        *IS_BARE,
        is_found(DEATH_HOOK)
    );
    let of_session = [BELL_HOOK, LINK_HOOK].map(is_found).join(" ");
    let show = |format: &str| Command::new("display-message").args(["-p", "-t", &target, format]);
    let commands = [
        global("-gqv", BELL_HOOK),
        global("-gwqv", DEATH_HOOK),
        global("-gqv", LINK_HOOK),
        show(&of_session),
        show("#{bell-action}"),
        Command::new("list-windows").args(["-t", &target, "-F", &of_window]),
    ];
    let shown = connection.each(&commands).await?;
    let [bells, deaths, links, found, bell_action, windows] =
        shown.map(|frame| frame.text().trim().to_owned());
    let hooks = [
        (BELL_HOOK, &bells),
        (DEATH_HOOK, &deaths),
        (LINK_HOOK, &links),
    ];
    let missing = hooks.iter().filter(|(_, set)| set.is_empty());
    let mut faults: Vec<Error> = missing.map(|(hook, _)| missing_hook(hook)).collect();
    let hidden = [hooks[0], hooks[2]].into_iter();
    let hidden = hidden.zip(found.split_whitespace());
    let hidden = hidden.filter(|((_, set), found)| !set.is_empty() && *found != "1");
    faults.extend(hidden.map(|((hook, _), _)| hidden_hook(hook, "the session", "-t SESSION")));
    if !["any", "current", "other"].contains(&&*bell_action) {
        let fault = Error::failed("bells of the session are off");
        faults.push(fault.with_hint("`tmux set-option -t SESSION bell-action any`"));
    }
    for line in windows.lines() {
        faults.extend(window_faults(line, !deaths.is_empty()).unwrap_or_default());
    }
    Ok(faults)
}

/// A hook of ours is not set on the server: it was removed, or replaced by `set-hook` without an index.
fn missing_hook(hook: &str) -> Error {
    let hook = name_of(hook);
    Error::failed(format!(
        "the hook `{hook}` of tmux-task is gone: events come late"
    ))
    .with_hint(format!(
        "`set-hook -g {hook}` without an index removes it: give yours an index, such as \
         `{hook}[0]`; then `tmux-task daemon stop`, and the next command starts one that sets it \
         again"
    ))
}

/// A hook of the same name is set on a window, or on the session, where it hides ours.
fn hidden_hook(hook: &str, place: &str, scope: &str) -> Error {
    let hook = name_of(hook);
    Error::failed(format!(
        "a hook `{hook}` on {place} hides that of tmux-task: events come late"
    ))
    .with_hint(format!(
        "set it for all with `set-hook -g`, and remove it here: `tmux set-hook -u {scope} {hook}`"
    ))
}

/// Returns the name of a hook without its index.
fn name_of(hook: &str) -> &str {
    hook.split_once('[').map_or(hook, |(name, _)| name)
}

/// Reads the options of a window that events depend on, and whether our hook for deaths is found there, and
/// returns the faults. The options of a shell belong to its user.
fn window_faults(line: &str, is_hooked: bool) -> Option<Vec<Error>> {
    let [id, rings, keeps_dead_pane, is_shell, is_found] =
        line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let window: WindowId = id.parse().ok()?;
    // Some versions of tmux print words, some numbers.
    let is_off = |value: &str| is_shell != "1" && ["off", "0", ""].contains(&value);
    let set = |option: &str| format!("`tmux set-option -w -t {window} {option} on`");
    let mut faults = Vec::new();
    if is_off(rings) {
        let fault = Error::failed(format!("bells of window {window} are off"));
        faults.push(fault.with_hint(set("monitor-bell")));
    }
    // The end of a run is found later, and without its output.
    if is_off(keeps_dead_pane) {
        let fault = Error::failed(format!(
            "window {window} closes when its run ends, and its last output with it"
        ));
        faults.push(fault.with_hint(set("remain-on-exit")));
    }
    if is_hooked && is_found != "1" {
        let (place, scope) = (format!("window {window}"), format!("-w -t {window}"));
        faults.push(hidden_hook(DEATH_HOOK, &place, &scope));
    }
    Some(faults)
}

/// Returns the version of the running server; `None` when it has no session.
pub(crate) async fn server_version(
    connection: &mut Connection<'_>,
) -> Result<Option<String>, TmuxError> {
    let list = Command::new("list-sessions").args(["-F", "#{version}"]);
    let listed = match connection.print(list).await {
        Err(TmuxError::NoSuchSession { .. }) => return Ok(None),
        answer => answer?,
    };
    let first = listed.lines().next().map(str::trim);
    Ok(first.filter(|text| !text.is_empty()).map(ToOwned::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_of_a_window_hides_ours_of_the_same_name() {
        let hidden = vec![hidden_hook(DEATH_HOOK, "window @3", "-w -t @3")];
        let faults = |line, exists| window_faults(line, exists).unwrap();
        assert_eq!(faults("@3 1 on 0 0", true), hidden);
        assert_eq!(faults("@3 1 on 0 1", true), []);
        assert_eq!(faults("@3 1 on 0 0", false), [], "it is gone");
    }

    #[test]
    fn options_of_shells_are_their_users() {
        let faults = |line: &str| {
            let faults = window_faults(&format!("{line} 1"), true).unwrap();
            let messages = faults.into_iter().map(|fault| fault.message);
            messages.collect::<Vec<_>>()
        };
        assert!(faults("@3 1 on 0").is_empty());
        assert!(faults("@3 on failed 0").is_empty());
        assert!(faults("@3 0 off 1").is_empty());
        let both = [
            "bells of window @3 are off",
            "window @3 closes when its run ends, and its last output with it",
        ];
        assert_eq!(faults("@3 0 off 0"), both);
        assert_eq!(window_faults("odd", true), None);
    }
}
