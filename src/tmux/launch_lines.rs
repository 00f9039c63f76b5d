//! What a launch reads before it changes anything, the command lines that launch, and what comes of it.

use std::sync::LazyLock;

use super::client::{Connection, all_ok, continue_command, pause_command};
use super::error::TmuxError;
use super::pane_origin::{EXEC_PANE, HAS_NO_RUN, IS_BARE, IS_OWN_PANE};
use super::rows::{IS_FLOATING, IS_LINKED, IS_MARKED, IS_NAMED_BY_TMUX, PaneOrder};
use super::server::{IS_BEFORE_3_8, Server};
use super::window_options::{
    ENDING, MARK, OwnOptions, names_format, option_commands, print_inherited,
};
use crate::model::*;
use crate::rules::protocol::{Command, Frame, literal_argument, literal_format};

/// How often a launch starts over before it gives up.
pub(super) const ATTEMPTS: usize = 20;

/// A run that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewRun {
    /// The life of the session.
    pub life: SessionLife,
    /// The task's window.
    pub window: WindowId,
    /// Its primary pane.
    pub pane: PaneId,
    /// The number of the run, from 1.
    pub run: u32,
    /// The previous run in the window; `None` when the window was created for this one.
    pub replaced: Option<ReplacedRun>,
}

/// What came of a launch.
#[derive(Debug)]
pub(crate) enum LaunchAnswer {
    Started(NewRun),
    /// Nothing was started: the run of this window with this first process has to be ended first. The window
    /// stays when it ends.
    Live(WindowId, u32),
    /// Nothing: the session is missing, or has not the window in which the task may run.
    NoSession,
}

/// Returns the error that the session had changed at each attempt since it was read.
pub(crate) fn contended() -> Error {
    Error::failed(format!(
        "the session changed during each of {ATTEMPTS} attempts; run the command again"
    ))
}

/// Returns the error that a slot is ambiguous.
pub(crate) fn two_windows(name: &str, first: WindowId, second: WindowId) -> Error {
    Error::failed(format!(
        "two windows are named `{name}`: {first} and {second}"
    ))
    .with_hint("rename or close one of them")
}

/// Checks a task's name: 1 to 40 of `A-Za-z0-9._-`, the first a letter or digit.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if is_task_name(name) {
        Ok(())
    } else {
        let shown = text::one_line(name.as_bytes(), 60);
        Err(Error::usage(format!(
            "`{shown}` is not a task name: {TASK_NAME_RULE}"
        )))
    }
}

/// Checks a launch's token, which is used in formats.
pub(super) fn check_token(token: &str) -> Result<(), Error> {
    let wrong = || Error::usage("the launch has a token that tmux cannot be asked for");
    is_token(token).then_some(()).ok_or_else(wrong)
}

/// The history limit of a task's pane, in rows.
const HISTORY_LIMIT: &str = "50000";

/// The windows in which a launch may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slots {
    /// Those of the task's name; a new one if there is none.
    OfName,
    /// This one, as long as its last launch is the one with this token.
    Window(WindowId, String),
}

/// The lines that launch a task.
pub(super) struct LaunchLines<'a> {
    pub(super) launch: &'a Launch,
    /// The session as a target: `=NAME` or `$3`.
    pub(super) session: String,
    pub(super) slots: Slots,
    /// The processes of the runs that were ended for it. tmux may not know yet that they have.
    pub(super) ended: &'a [u32],
}

/// What tmux refuses as the value of an option when a launch has to start over.
const CHANGED: &str = "changed-meanwhile";

/// 1 where the server ends with its last client, and no client is attached.
const SERVER_ENDS: &str = "#{?exit-unattached,#{?#{m:*[1-9]*,#{S:#{session_attached}}},0,1},0}";

impl LaunchLines<'_> {
    /// Returns a format that is true for the windows in which the launch may run.
    fn is_slot(&self) -> String {
        match &self.slots {
            Slots::OfName => format!("#{{==:#{{window_name}},{}}}", self.launch.name),
            Slots::Window(window, token) => {
                let is_window = format!("#{{==:#{{window_id}},{window}}}");
                format!("#{{&&:{is_window},#{{==:#{{{MARK}}},{token}}}}}")
            }
        }
    }

    /// Reads the windows of the name, and launches accordingly. A live run is left to the caller to end,
    /// so that nothing is ended for a launch that is refused. Returns `None` when the session changed between
    /// reading and launching: nothing was started.
    pub(super) async fn attempt(
        &self,
        connection: &mut Connection<'_>,
    ) -> Result<Option<LaunchAnswer>, TmuxError> {
        let found = find_slots(connection, &self.session, &self.is_slot()).await?;
        let Some((slots, control_clients)) = found else {
            return Ok(Some(LaunchAnswer::NoSession));
        };
        let is_live = |slot: &LaunchRow, pid: &u32| !slot.is_dead && !self.ended.contains(pid);
        let launched = match slots.as_slice() {
            [] if self.slots != Slots::OfName => return Ok(Some(LaunchAnswer::NoSession)),
            [] => self.create_window(connection).await?,
            [slot] => match slot.pid.filter(|pid| is_live(slot, pid)) {
                Some(pid) if self.launch.replaces == Replaces::Any => {
                    // Its window stays when it ends.
                    let keep = connection.run(&[self.go_on_if_unchanged(slot)]).await;
                    let kept = unless_contended(keep)?;
                    return Ok(kept.map(|_| LaunchAnswer::Live(slot.window, pid)));
                }
                Some(_) => {
                    let (name, window) = (&self.launch.name, slot.window);
                    return Err(
                        Error::failed(format!("task `{name}` is running in {window}"))
                            .with_hint("without --if-absent, the live run is replaced")
                            .into(),
                    );
                }
                None => self.run_again(connection, slot, &control_clients).await?,
            },
            [first, second, ..] => {
                return Err(two_windows(&self.launch.name, first.window, second.window).into());
            }
        };
        Ok(launched.map(|mut run| {
            if !self.ended.is_empty() {
                run.replaced = Some(ReplacedRun::Live);
            }
            LaunchAnswer::Started(run)
        }))
    }

    /// Returns the number of a run in a window whose last one has this number, 0 if there was none: one more
    /// than that and than the last one of the task's name.
    fn run_after(&self, last: u32) -> u32 {
        last.max(self.launch.last_run).saturating_add(1)
    }

    /// Creates the session with the task as its only window; `None` when another process was
    /// faster.
    pub(super) async fn create_session(
        &self,
        server: &Server,
    ) -> Result<Option<NewRun>, TmuxError> {
        server.create_socket_folder()?;
        let pane_target = format!("{}:", self.session);
        let first = format!("{pane_target}^");
        let on_session = |name: &str, value: &str| {
            Command::new("set-option").args(["-t", &pane_target, name, value])
        };
        // The length of a history is fixed when its pane is created, so the session option has to
        // be set before: the session's first window is replaced by the task's. Its process waits, and
        // the task's file is not for its pane.
        let begin =
            Command::new("new-session").args(["-d", "-s", &literal_format(&self.launch.session)]);
        let mut line = vec![
            self.in_pane(begin.args(["-n", &self.launch.name])),
            on_session("history-limit", HISTORY_LIMIT),
            on_session("destroy-unattached", "off"),
            on_session("bell-action", "any"),
        ];
        if let Some(root) = &self.launch.root {
            line.push(on_session("@tmux_task_root", root));
        }
        line.push(self.new_window(&["-k", "-t", &first]));
        let exists = |error: &TmuxError| {
            matches!(error, TmuxError::Rejected { command, reply }
                if command == "new-session" && reply.starts_with("duplicate session"))
        };
        let mut connection = Connection::OneShot(server);
        self.create(&mut connection, &line, exists).await
    }

    /// Creates the window, unless the session is gone.
    async fn create_window(
        &self,
        connection: &mut Connection<'_>,
    ) -> Result<Option<NewRun>, TmuxError> {
        let pane_target = format!("{}:", self.session);
        let line = [
            // Another session must not be used in place of one that is gone.
            Command::new("has-session").args(["-t", &self.session]),
            Command::new("set-option").args(["-t", &pane_target, "history-limit", HISTORY_LIMIT]),
            self.new_window(&["-a", "-t", &format!("{pane_target}{{end}}")]),
        ];
        self.create(connection, &line, TmuxError::is_missing).await
    }

    /// Runs a line that creates the task's window; `None` where it fails for a reason for which the launch
    /// starts over.
    async fn create(
        &self,
        connection: &mut Connection<'_>,
        line: &[Command],
        is_contended: impl Fn(&TmuxError) -> bool,
    ) -> Result<Option<NewRun>, TmuxError> {
        let frames = connection.frames(line).await?;
        match (all_ok(line, frames.clone()), self.made(&frames)) {
            (_, Some(made)) => self.complete(connection, made).await.map(Some),
            (Err(error), None) if is_contended(&error) => Ok(None),
            (Err(error), None) => Err(error),
            (Ok(_), None) => Err(TmuxError::confused("a new window has no id")),
        }
    }

    /// Creates a window whose process waits to run the task, and prints its row.
    fn new_window(&self, place: &[&str]) -> Command {
        let made = format!("{} {SERVER_ENDS} {}", self.launch.token, row_format());
        let command = Command::new("new-window")
            .args(["-d", "-P", "-F", &made, "-n", &self.launch.name])
            .args(place.iter().copied());
        self.in_pane(command)
    }

    /// Adds what the pane runs.
    fn in_pane(&self, command: Command) -> Command {
        command
            .args(["-c", &literal_format(self.launch.cwd()), "--"])
            .args([&self.launch.program, EXEC_PANE, &self.launch.file])
    }

    /// Returns the row that [`LaunchLines::new_window`] has printed, and whether the server ends with the client
    /// that has created the window. Hooks of the user may print as well.
    fn made(&self, frames: &[Frame]) -> Option<(LaunchRow, bool)> {
        let beginning = format!("{} ", self.launch.token);
        frames.iter().find_map(|frame| {
            let said = frame.text();
            let row = said.lines().find_map(|row| row.strip_prefix(&beginning))?;
            Some((read_row(row.get(2..)?)?, row.starts_with('1')))
        })
    }

    /// Describes the task on a new window. Hooks of the user may have run meanwhile, and have renamed or
    /// closed it.
    async fn complete(
        &self,
        connection: &mut Connection<'_>,
        (made, does_server_end): (LaunchRow, bool),
    ) -> Result<NewRun, TmuxError> {
        let name = &self.launch.name;
        if does_server_end {
            return Err(server_ends(name).into());
        }
        let pane = made.pane.to_string();
        let number = self.run_after(0);
        let mut line = option_commands(self.launch, &pane, number)?;
        line.push(Command::new("display-message").args(["-p", "-t", &pane, "#{window_name}"]));
        let gone = || {
            TmuxError::from(
                Error::failed(format!(
                    "the window of task `{name}` was gone right after it was made"
                ))
                .with_hint("a hook of tmux may have closed it: `tmux show-hooks -g` lists them"),
            )
        };
        let answer = TmuxError::if_there(unless_contended(connection.run(&line).await));
        let frames = answer?.flatten().ok_or_else(gone)?;
        let shown = frames.last().map(Frame::text);
        let is_named = shown.is_some_and(|text| text.lines().any(|line| line == name));
        if !is_named {
            let rename = Command::new("rename-window").args(["-t", &pane, name]);
            if let Err(error) = connection.run(&[rename]).await {
                tracing::debug!(%error, %pane, "a new window has another name");
            }
        }
        Ok(made.started(number, None))
    }

    /// Runs the task again in its window; `None` when the window or one of the control clients is
    /// gone, when another client has come, or when another run is alive.
    async fn run_again(
        &self,
        connection: &mut Connection<'_>,
        slot: &LaunchRow,
        control_clients: &[String],
    ) -> Result<Option<NewRun>, TmuxError> {
        let pane = slot.pane.to_string();
        let mut line = vec![self.go_on_if_unchanged(slot)];
        // If a client is gone, the line fails before anything is done.
        let clients = control_clients.iter().map(|client| ["-t", client]);
        let pause = |client| pause_command(slot.pane).args(client);
        line.extend(clients.clone().map(pause));
        line.push(
            // Set before the run ends, with the primary pane's own process: the window's active
            // pane may be another one.
            Command::new("set-option")
                .args(["-wF", "-t", &pane, "@tmux_task_replaced"])
                .arg("#{?pane_dead,#{@tmux_task_replaced},#{pane_pid}}"),
        );
        let number = self.run_after(slot.run);
        line.extend(option_commands(self.launch, &pane, number)?);
        line.push(Command::new("set-option").args(["-wu", "-t", &pane, ENDING]));
        line.push(self.in_pane(Command::new("respawn-pane").args(["-k", "-t", &pane])));
        line.push(Command::new("clear-history").args(["-t", &pane]));
        line.extend(clients.map(|client| continue_command(slot.pane).args(client)));
        let launched = unless_contended(connection.run(&line).await)?;
        let replaced = (slot.run > 0).then_some(ReplacedRun::Dead);
        Ok(launched.map(|_| slot.started(number, replaced)))
    }

    /// Fails the line if the window has another name by now, if a client has attached since they were
    /// listed, or if another run is alive than the slot's.
    fn go_on_if_unchanged(&self, slot: &LaunchRow) -> Command {
        let is_run = match slot.pid.filter(|_| !slot.is_dead) {
            Some(pid) => format!("#{{||:{},#{{==:#{{pane_pid}},{pid}}}}}", *HAS_NO_RUN),
            None => HAS_NO_RUN.clone(),
        };
        // A client that has come since is not among those that the line pauses the pane for.
        let attached = literal_argument(&slot.attached);
        let are_attached = format!("#{{==:{},{attached}}}", *ATTACHED_CLIENTS);
        let is_slot = self.is_slot();
        let condition = format!("#{{&&:{is_run},#{{&&:{is_slot},{are_attached}}}}}");
        let in_session = format!("{}:{}.{}", self.session, slot.window, slot.pane);
        go_on_if(&in_session, &condition)
    }
}

/// Returns the error that the server ends as soon as no client is attached.
fn server_ends(name: &str) -> Error {
    Error::failed(format!(
        "task `{name}` ends as soon as it was started: tmux's option exit-unattached is on, and no \
         client is attached"
    ))
    .with_hint("`tmux set-option -s exit-unattached off` lets it run")
}

/// Fails the line unless a format is true for the pane. [`unless_contended`] recognises the error.
///
/// The option is one that a task's window has anyway, and no value of it is called so. `if-shell`
/// would not do: tmux never frees the commands that it has parsed for it.
pub(super) fn go_on_if(pane: &str, condition: &str) -> Command {
    Command::new("set-option")
        .args(["-wF", "-t", pane, "remain-on-exit"])
        .arg(format!("#{{?{condition},on,{CHANGED}}}"))
}

/// Returns an answer; `None` if the line failed because the session has changed since it was read.
pub(super) fn unless_contended<T>(answer: Result<T, TmuxError>) -> Result<Option<T>, TmuxError> {
    let is_contended = |reply: &str| {
        let missing = ["can't find", "no such"];
        missing.iter().any(|sign| reply.starts_with(sign)) || reply.ends_with(CHANGED)
    };
    match answer {
        Err(TmuxError::Rejected { reply, .. }) if is_contended(&reply) => Ok(None),
        answer => answer.map(Some),
    }
}

/// A pane of the list.
#[derive(Debug)]
struct LaunchRow {
    life: SessionLife,
    window: WindowId,
    pane: PaneId,
    is_floating: bool,
    /// The number of its last run; 0 if another launch has made it, and has not described it yet.
    run: u32,
    /// Whether it has no run that would have to be ended; see [`HAS_NO_RUN`].
    is_dead: bool,
    /// Its process; `None` where tmux has forgotten that of a dead pane.
    pid: Option<u32>,
    /// The attached clients of the server; see [`ATTACHED_CLIENTS`].
    attached: String,
    /// Whether it is a task, and not a shell that tmux has named after its program.
    is_task: bool,
}

impl LaunchRow {
    /// Returns the run with this number that was started in it.
    fn started(&self, run: u32, replaced: Option<ReplacedRun>) -> NewRun {
        NewRun {
            life: self.life.clone(),
            window: self.window,
            pane: self.pane,
            run,
            replaced,
        }
    }
}

/// Returns what a launch has started if its answer was lost, wherever it is and whatever its name; `None` when
/// it started nothing. What it replaced is not known.
pub(crate) async fn find_launched(
    connection: &mut Connection<'_>,
    launch: &Launch,
) -> Result<Option<NewRun>, TmuxError> {
    check_token(&launch.token)?;
    let is_launched = format!("#{{==:#{{{MARK}}},{}}}", launch.token);
    let list = Command::new("list-panes").args(["-a", "-f", &is_launched, "-F", &row_format()]);
    let Some(listed) = TmuxError::if_there(connection.print(list).await)? else {
        return Ok(None);
    };
    let row = first_panes(&listed).into_iter().next();
    Ok(row.map(|row| row.started(row.run, None)))
}

/// Returns the format for a pane in the list.
fn row_format() -> String {
    // A task was marked by a launcher, or opened with a command and named by a user. Of windows
    // that are linked into further sessions only marked ones: the others belong there.
    let is_bare = &*IS_BARE;
    let is_users = format!("#{{||:#{{||:{is_bare},{IS_NAMED_BY_TMUX}}},{IS_LINKED}}}");
    let is_task = format!("#{{?{IS_MARKED},1,#{{?{is_users},0,1}}}}");
    let is_task = format!("#{{?{},{is_task},0}}", *IS_OWN_PANE);
    // A window that was never counted had its first run.
    let has_no_run = &*HAS_NO_RUN;
    let run = format!(
        "#{{?@tmux_task_run,#{{@tmux_task_run}},#{{?pane_dead,1,#{{?{has_no_run},0,1}}}}}}"
    );
    format!(
        "#{{pid}} #{{start_time}} #{{session_id}} #{{session_created}} \
         #{{window_id}} #{{pane_id}} {has_no_run} #{{pane_pid}} {} {is_task} \
         {} {run}",
        *ATTACHED_CLIENTS, *IS_FLOATING
    )
}

/// Parses a row of the list; `None` for a line of another form.
fn read_row(line: &str) -> Option<LaunchRow> {
    let mut fields = line.splitn(12, ' ');
    let life = SessionLife {
        server_pid: fields.next()?.parse().ok()?,
        server_started: fields.next()?.parse().ok()?,
        id: fields.next()?.parse().ok()?,
        created: fields.next()?.parse().ok()?,
    };
    Some(LaunchRow {
        life,
        window: fields.next()?.parse().ok()?,
        pane: fields.next()?.parse().ok()?,
        is_dead: fields.next()? == "1",
        pid: fields.next()?.parse().ok(),
        attached: fields.next()?.to_owned(),
        is_task: fields.next()? == "1",
        is_floating: fields.next()? == "1",
        run: fields.next()?.parse().unwrap_or(1),
    })
}

/// Parses the list to one row per window: that of its primary pane.
fn first_panes(list: &str) -> Vec<LaunchRow> {
    let order = |row: &LaunchRow| -> PaneOrder { (row.is_floating, row.pane) };
    let mut rows: Vec<LaunchRow> = Vec::new();
    for row in list.lines().filter_map(read_row) {
        match rows.iter_mut().find(|known| known.window == row.window) {
            Some(known) if order(&row) < order(&*known) => *known = row,
            Some(_) => {}
            None => rows.push(row),
        }
    }
    rows
}

/// Options that a window may not inherit when a task is launched: with the first two any shell would
/// count as a task, and be replaced; the last one would hide which window this launch has created.
const OWN: [&str; 3] = ["@tmux_task_command", "@pi_task_command", MARK];

/// Finds the tasks among the windows of a session, `=NAME` or `$3`, for which this format is true, and the
/// names of the server's control clients; `None` when the session is missing. Fails when tmux fails, and when
/// all windows, or the session's, inherit one of [`OWN`].
async fn find_slots(
    connection: &mut Connection<'_>,
    session: &str,
    is_slot: &str,
) -> Result<Option<(Vec<LaunchRow>, Vec<String>)>, TmuxError> {
    // Without the colon tmux would also search for a window of that name.
    let target = format!("{session}:");
    let list = Command::new("list-panes").args(["-s", "-t", &target, "-f", is_slot]);
    let line = [
        list.args(["-F", &row_format()]),
        Command::new("list-clients").args(["-F", "#{client_control_mode} #{client_name}"]),
        print_inherited(&names_format(&OWN)),
        // A format also finds these, but cannot tell whose they are.
        Command::new("show-options").args(["-t", &target]),
    ];
    let answer = TmuxError::if_there(connection.each(&line).await)?;
    let Some([rows, clients, inherited, of_session]) = answer else {
        return Ok(None);
    };
    let inherited = inherited.text();
    let inherited: Vec<&str> = inherited.split_whitespace().collect();
    let of_session = OwnOptions::read(&of_session.text());
    let is_set = |name: &&str| of_session.text(name).is_some();
    for (names, scope, hint) in [
        (
            inherited,
            "for all windows: any shell would",
            "`tmux set-option -gu NAME` unsets an option (-gwu or -su, where it was set so)",
        ),
        (
            OWN.into_iter().filter(is_set).collect(),
            "on the session: any shell in it would",
            "`tmux set-option -t SESSION -u NAME` unsets an option",
        ),
    ] {
        if let Some(names) = in_words(&names) {
            let refusal = Error::failed(format!("{names} set {scope} count as a task"));
            return Err(refusal.with_hint(hint).into());
        }
    }
    let mut slots = first_panes(&rows.text());
    let attached = slots.first().map_or("", |row| &row.attached);
    let control_clients = read_control_clients(&clients, attached);
    slots.retain(|row| row.is_task);
    Ok(Some((slots, control_clients)))
}

/// Lists options: `@a is` or `@a, @b are`; `None` without any.
fn in_words(names: &[&str]) -> Option<String> {
    match names {
        [] => None,
        [name] => Some(format!("{name} is")),
        names => Some(format!("{} are", names.join(", "))),
    }
}

// Respawning a pane without crashing the server.
//
// A respawn gives the pane an empty buffer, but up to tmux 3.7c the offsets of control clients
// still point into the old one. A client that has not consumed all of the old output makes the
// server crash at the next byte, even if the old run ended long ago. Pausing a pane for a client
// disables the client's offset, and continuing resets it to the present position. In one line with
// the respawn, no old offset is ever used. From 3.8 on tmux resets the offsets itself, and no client is
// paused.

/// A format for the names of all clients that are attached to any session, as one word, before 3.8. A
/// client of another session may get a pane's output as well: sessions can be grouped, and windows linked.
static ATTACHED_CLIENTS: LazyLock<String> = LazyLock::new(|| {
    let listed = "#{S:#{?session_attached_list,#{session_attached_list}+,}}";
    format!("{NONE}#{{?{IS_BEFORE_3_8},{listed},}}")
});

/// What that is without any.
const NONE: &str = "+";

/// Parses the names of the control clients for which a pane has to be paused. `attached` is what tmux
/// has expanded [`ATTACHED_CLIENTS`] to: only a client that is attached gets output.
fn read_control_clients(frame: &Frame, attached: &str) -> Vec<String> {
    if attached == NONE {
        return Vec::new();
    }
    let text = frame.text();
    let names = text.lines().filter_map(|line| line.strip_prefix("1 "));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["a", "9", "api-server", "A.b_c-9", &"x".repeat(40)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let wrong = ["", "a b", "a\n", &"x".repeat(41)];
        for name in ".a -a _a a:b é a#{q}".split(' ').chain(wrong) {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        let why =
            "`a b` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit";
        assert_eq!(check_name("a b").unwrap_err().to_string(), why);
    }

    #[test]
    fn of_each_window_the_lowest_pane_counts() {
        let rows = first_panes(
            "1 2 $0 3 @1 %7 0 9 +a,b+ 0 0 3\n1 2 $0 3 @1 %2 1  +a,b+ 1 0 3\n\
             1 2 $0 3 @1 %1 0 9 +a,b+ 0 1 3\n1 2 $0 3 @4 %5 0 41 +a,b+ 0 1 \nrubbish",
        );
        let list: Vec<_> = rows
            .iter()
            .map(|row| (row.window.0, row.pane.0, row.run))
            .collect();
        assert_eq!(list, [(1, 2, 3), (4, 5, 1)]);
        let list: Vec<_> = rows.iter().map(|row| (row.is_dead, row.is_task)).collect();
        assert_eq!(list, [(true, true), (false, false)]);
        assert_eq!((rows[0].pid, rows[1].pid), (None, Some(41)));
        assert!(rows.iter().all(|row| row.attached == "+a,b+"));
    }
}
