//! The command lines of a launch.

use super::client::{Connection, all_ok, continue_command, pause_command};
use super::error::TmuxError;
use super::launch_rows::{
    LaunchAnswer, LaunchRow, NamedWindows, NewRun, are_named, first_panes, is_named, read_rows,
    row_format, two_windows,
};
use super::pane_origin::{EXEC_PANE, HAS_NO_RUN};
use super::respawn::{are_attached, for_clients};
use super::server::Server;
use super::window_options::{MARK, RunNumber, option_commands};
use crate::model::{Error, Launch, ReplacedRun, Replaces, WindowId};
use crate::protocol::{Command, Frame, literal_format};

/// The history limit of a task's pane, in rows.
const HISTORY_LIMIT: &str = "50000";

/// The result of one attempt to launch.
pub(super) enum Attempt {
    /// The task runs, or the slot has a live run.
    Done(LaunchAnswer),
    /// The session changed between reading and launching: nothing was started.
    Contended,
    /// The session is missing, or has not the window in which it may run.
    NoSession,
}

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
    launch: &'a Launch,
    /// The session as a target: `=NAME` or `$3`.
    session: String,
    slots: Slots,
    /// The processes of the runs that were ended for it. tmux may not know yet that they have.
    ended: &'a [u32],
}

/// What tmux refuses as the value of an option when a launch has to start over.
const CHANGED: &str = "changed-meanwhile";

/// 1 where the server ends with its last client, and no client is attached.
const SERVER_ENDS: &str = "#{?exit-unattached,#{?#{m:*[1-9]*,#{S:#{session_attached}}},0,1},0}";

impl<'a> LaunchLines<'a> {
    pub(super) fn new(launch: &'a Launch, session: String, slots: Slots, ended: &'a [u32]) -> Self {
        Self {
            launch,
            session,
            slots,
            ended,
        }
    }

    /// Returns a format that is true for the windows in which the launch may run.
    fn is_slot(&self) -> String {
        match &self.slots {
            Slots::OfName => is_named(&self.launch.name),
            Slots::Window(window, token) => {
                let is_window = format!("#{{==:#{{window_id}},{window}}}");
                format!("#{{&&:{is_window},#{{==:#{{{MARK}}},{token}}}}}")
            }
        }
    }

    /// Reads the windows of the name, and launches accordingly. A live run is left to the caller to end,
    /// so that nothing is ended for a launch that is refused.
    pub(super) async fn attempt(
        &self,
        connection: &mut Connection<'_>,
    ) -> Result<Attempt, TmuxError> {
        let NamedWindows {
            slots,
            named,
            control_clients,
        } = match NamedWindows::find(connection, &self.session, &self.is_slot()).await? {
            Some(windows) => windows,
            None => return Ok(Attempt::NoSession),
        };
        let launched = match slots.as_slice() {
            [] if self.slots != Slots::OfName => return Ok(Attempt::NoSession),
            [] => self.create_window(connection, &named).await?,
            [slot] => match self.live_run(slot) {
                Some(pid) if self.launch.replaces == Replaces::Any => {
                    return self.keep_window(connection, slot, pid).await;
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
        Ok(launched.map_or(Attempt::Contended, |mut run| {
            if !self.ended.is_empty() {
                run.replaced = Some(ReplacedRun::Live);
            }
            Attempt::Done(LaunchAnswer::Started(run))
        }))
    }

    /// Returns the process of the slot's run, if it is alive and was not ended for this launch.
    fn live_run(&self, slot: &LaunchRow) -> Option<u32> {
        slot.pid
            .filter(|pid| !slot.is_dead && !self.ended.contains(pid))
    }

    /// Keeps the window of a live run when that ends, for this launch.
    async fn keep_window(
        &self,
        connection: &mut Connection<'_>,
        slot: &LaunchRow,
        pid: u32,
    ) -> Result<Attempt, TmuxError> {
        match connection.run(&[self.go_on_if_unchanged(slot)]).await {
            Err(TmuxError::Rejected { reply, .. }) if is_contended(&reply) => {
                Ok(Attempt::Contended)
            }
            answer => {
                answer?;
                Ok(Attempt::Done(LaunchAnswer::Live(slot.window, pid)))
            }
        }
    }

    /// Finds the window of this launch, wherever it is.
    pub(super) async fn find_launched(
        &self,
        connection: &mut Connection<'_>,
    ) -> Result<Option<NewRun>, TmuxError> {
        match connection.run(&[self.list_launched()]).await {
            Err(error) if error.is_missing() => Ok(None),
            frames => self.launched(&frames?, None),
        }
    }

    /// Lists the window of this launch, wherever it is and whatever its name.
    fn list_launched(&self) -> Command {
        Command::new("list-panes")
            .args([
                "-a",
                "-f",
                &format!("#{{==:#{{{MARK}}},{}}}", self.launch.token),
                "-F",
            ])
            .arg(Self::launched_format())
    }

    /// Prints the target pane as [`LaunchLines::list_launched`] does, which reads all panes of the
    /// server.
    fn show_launched(target: &str) -> Command {
        let format = Self::launched_format();
        Command::new("display-message").args(["-p", "-t", target, &format])
    }

    fn launched_format() -> String {
        format!("{SERVER_ENDS} {}", row_format())
    }

    /// Parses the answer to [`LaunchLines::list_launched`] or [`LaunchLines::show_launched`].
    fn launched(
        &self,
        frames: &[Frame],
        replaced: Option<ReplacedRun>,
    ) -> Result<Option<NewRun>, TmuxError> {
        let text = frames.last().map(Frame::text).unwrap_or_default();
        let ends = text.starts_with('1');
        let rows: Vec<&str> = text.lines().filter_map(|line| line.get(2..)).collect();
        let rows = rows.join("\n");
        let rows = first_panes(read_rows(&rows));
        let Some(row) = rows.into_iter().find(|row| row.token == self.launch.token) else {
            return Ok(None);
        };
        if ends {
            return Err(server_ends(&self.launch.name).into());
        }
        Ok(Some(NewRun {
            life: row.life,
            window: row.window,
            pane: row.pane,
            run: row.run,
            replaced,
        }))
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

    /// Creates the window, unless the windows of its name have changed.
    async fn create_window(
        &self,
        connection: &mut Connection<'_>,
        named: &str,
    ) -> Result<Option<NewRun>, TmuxError> {
        let pane_target = format!("{}:", self.session);
        let is_same = are_named(&self.launch.name, named);
        let line = [
            // Another session must not be used in place of one that is gone.
            Command::new("has-session").args(["-t", &self.session]),
            // Fails the line if the windows of the name have changed.
            Command::new("set-option")
                .args(["-F", "-t", &pane_target, "history-limit"])
                .arg(format!("#{{?{is_same},{HISTORY_LIMIT},{CHANGED}}}")),
            self.new_window(&["-a", "-t", &format!("{pane_target}{{end}}")]),
        ];
        let has_changed = |error: &TmuxError| {
            let is_refused =
                matches!(error, TmuxError::Rejected { reply, .. } if reply.ends_with(CHANGED));
            error.is_missing() || is_refused
        };
        self.create(connection, &line, has_changed).await
    }

    /// Runs a line that creates the task's window; `None` where it fails for a reason for which the launch
    /// starts over.
    async fn create(
        &self,
        connection: &mut Connection<'_>,
        line: &[Command],
        is_contended: impl Fn(&TmuxError) -> bool,
    ) -> Result<Option<NewRun>, TmuxError> {
        let frames = connection.unseen().frames(line).await?;
        match (all_ok(line, frames.clone()), self.made(&frames)) {
            (_, Some(made)) => self.complete(connection, made).await,
            (Err(error), None) if is_contended(&error) => Ok(None),
            (Err(error), None) => Err(error),
            (Ok(_), None) => Err(TmuxError::confused("a new window has no id")),
        }
    }

    /// Creates a window whose process waits to run the task, and prints its row.
    fn new_window(&self, place: &[&str]) -> Command {
        let made = format!("{} {}", self.launch.token, Self::launched_format());
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
        let said = frames
            .iter()
            .map(Frame::text)
            .collect::<Vec<_>>()
            .join("\n");
        let row = said
            .lines()
            .find_map(|line| line.strip_prefix(&beginning))?;
        Some((read_rows(row.get(2..)?).pop()?, row.starts_with('1')))
    }

    /// Describes the task on a new window; `None` where another launch has taken the window for one that
    /// a lost launcher has left. Hooks of the user may have run meanwhile, and have renamed or closed it.
    async fn complete(
        &self,
        connection: &mut Connection<'_>,
        (made, does_server_end): (LaunchRow, bool),
    ) -> Result<Option<NewRun>, TmuxError> {
        let name = &self.launch.name;
        if does_server_end {
            return Err(server_ends(name).into());
        }
        let pane = made.pane.to_string();
        let is_ours = made.pid.map(|pid| format!("#{{==:#{{pane_pid}},{pid}}}"));
        let mut line: Vec<Command> = is_ours.iter().map(|is| go_on_if(&pane, is)).collect();
        line.extend(option_commands(self.launch, &pane, RunNumber::First)?);
        line.push(Command::new("display-message").args(["-p", "-t", &pane, "#{window_name}"]));
        line.push(Self::show_launched(&pane));
        let gone = || {
            TmuxError::from(
                Error::failed(format!(
                    "the window of task `{name}` was gone right after it was made"
                ))
                .with_hint("a hook of tmux may have closed it: `tmux show-hooks -g` lists them"),
            )
        };
        let frames = match connection.unseen().run(&line).await {
            Err(TmuxError::Rejected { reply, .. }) if reply.ends_with(CHANGED) => return Ok(None),
            Err(TmuxError::Rejected { reply, .. }) if is_contended(&reply) => return Err(gone()),
            Err(error) if error.is_missing() => return Err(gone()),
            answer => answer?,
        };
        let shown = frames.iter().rev().nth(1).map(Frame::text);
        let is_named = shown.is_some_and(|text| text.lines().any(|line| line == name));
        if !is_named {
            let rename = Command::new("rename-window").args(["-t", &pane, name]);
            if let Err(error) = connection.run(&[rename]).await {
                tracing::debug!(%error, %pane, "a new window has another name");
            }
        }
        self.launched(&frames, None)?.ok_or_else(gone).map(Some)
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
        line.extend(for_clients(pause_command, control_clients, slot.pane));
        line.push(
            // Set before the run ends, with the primary pane's own process: the window's active
            // pane may be another one.
            Command::new("set-option")
                .args(["-wF", "-t", &pane, "@tmux_task_replaced"])
                .arg("#{?pane_dead,#{@tmux_task_replaced},#{pane_pid}}"),
        );
        let (number, replaced) = match slot.run {
            0 => (RunNumber::First, None),
            _ => (RunNumber::Next, Some(ReplacedRun::Dead)),
        };
        line.extend(option_commands(self.launch, &pane, number)?);
        line.push(self.in_pane(Command::new("respawn-pane").args(["-k", "-t", &pane])));
        line.push(Command::new("clear-history").args(["-t", &pane]));
        line.extend(for_clients(continue_command, control_clients, slot.pane));
        line.push(Self::show_launched(&pane));
        let frames = match connection.unseen().run(&line).await {
            Err(TmuxError::Rejected { reply, .. }) if is_contended(&reply) => return Ok(None),
            answer => answer?,
        };
        self.launched(&frames, replaced)
    }

    /// Fails the line if the window has another name by now, if a client has attached since they were
    /// listed, which would not be among those that the line pauses the pane for, or if another run is
    /// alive than the slot's.
    fn go_on_if_unchanged(&self, slot: &LaunchRow) -> Command {
        let is_run = match slot.pid.filter(|_| !slot.is_dead) {
            Some(pid) => format!("#{{||:{},#{{==:#{{pane_pid}},{pid}}}}}", *HAS_NO_RUN),
            None => HAS_NO_RUN.clone(),
        };
        let condition = format!(
            "#{{&&:{is_run},#{{&&:{},{}}}}}",
            self.is_slot(),
            are_attached(&slot.attached)
        );
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

/// Fails the line unless a format is true for the pane. [`is_contended`] recognises the error.
///
/// The option is one that a task's window has anyway, and no value of it is called so. `if-shell`
/// would not do: tmux never frees the commands that it has parsed for it.
pub(super) fn go_on_if(pane: &str, condition: &str) -> Command {
    Command::new("set-option")
        .args(["-wF", "-t", pane, "remain-on-exit"])
        .arg(format!("#{{?{condition},on,{CHANGED}}}"))
}

/// Whether a line failed because the session has changed since it was read.
pub(super) fn is_contended(reply: &str) -> bool {
    reply.starts_with("can't find") || reply.starts_with("no such") || reply.ends_with(CHANGED)
}
