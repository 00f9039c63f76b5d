//! The command lines of a launch.

use std::path::Path;

use super::client::{Connection, all_ok};
use super::error::TmuxError;
use super::launch_options::{MARK, RunNumber, option_commands};
use super::launch_plan::{LaunchError, LaunchPlan, NewRun, PreviousRun};
use super::launch_rows::{LaunchRow, first_panes, read_rows, row_format};
use super::named_windows::{ExpectedWindows, NAMING, NamedWindows, are_named, is_named};
use super::respawn::{are_attached, continue_for, pause_for};
use super::rows::STAND_IN;
use super::server::Server;
use super::task_environment::PREFIX;
use super::user_hooks::UserHooks;
use crate::model::Replaces;
use crate::protocol::{Command, Frame, control_line, literal_format};

/// The history limit of a task's pane, in rows.
const HISTORY_LIMIT: &str = "50000";

/// The result of one attempt to launch.
pub(super) enum Attempt {
    /// The task runs.
    Launched(NewRun),
    /// The session changed between reading and launching: nothing was started.
    Contended,
    NoSession,
}

/// The lines that launch a task.
pub(super) struct LaunchLines<'a> {
    plan: &'a LaunchPlan,
    /// The session as a target: `=NAME` or `$3`.
    session: String,
}

/// What tmux refuses as the value of an option when a launch has to start over.
const CHANGED: &str = "changed-meanwhile";

/// 1 where the server ends with its last client, and no client is attached.
const SERVER_ENDS: &str = "#{?exit-unattached,#{?#{m:*[1-9]*,#{S:#{session_attached}}},0,1},0}";

impl<'a> LaunchLines<'a> {
    pub(super) fn new(plan: &'a LaunchPlan, session: String) -> Self {
        Self { plan, session }
    }

    /// Reads the windows of the name, of which so many are `expected`, and launches accordingly.
    pub(super) async fn attempt(
        &self,
        connection: &mut Connection<'_>,
        expected: ExpectedWindows,
    ) -> Result<Attempt, LaunchError> {
        let NamedWindows {
            slots,
            named,
            control_clients,
            hooks,
            inherited,
            of_session,
        } = match NamedWindows::find(connection, &self.session, &self.plan.name, expected).await? {
            Some(windows) => windows,
            None => return Ok(Attempt::NoSession),
        };
        if let Some(names) = inherited {
            return Err(LaunchError::Inherited(names));
        }
        if let Some(names) = of_session {
            return Err(LaunchError::OfSession(names));
        }
        let launched = match slots.as_slice() {
            [] => self.create_window(connection, &named, hooks).await?,
            [slot] if !slot.is_dead && !self.plan.replaces.may_end(slot.pid) => {
                return Err(LaunchError::Running {
                    name: self.plan.name.clone(),
                    window: slot.window,
                });
            }
            [slot] => self.run_again(connection, slot, &control_clients).await?,
            [first, second, ..] => {
                return Err(LaunchError::Ambiguous {
                    name: self.plan.name.clone(),
                    first: first.window,
                    second: second.window,
                });
            }
        };
        Ok(launched.map_or(Attempt::Contended, Attempt::Launched))
    }

    /// Finds the window of this launch, wherever it is.
    pub(super) async fn find_launched(
        &self,
        connection: &mut Connection<'_>,
    ) -> Result<Option<NewRun>, LaunchError> {
        match connection.run(&[self.list_launched()]).await {
            Err(error) if error.is_missing() => Ok(None),
            frames => self.launched(&frames?, None),
        }
    }

    /// Notes the name of the task on a new window, until [`LaunchLines::restore_name`] is done.
    fn note_name(&self, target: &str) -> Command {
        Command::new("set-option").args(["-w", "-t", target, NAMING, &self.plan.name])
    }

    /// Does so if the target is a window of this launch that has no task yet.
    fn note_name_in_own(&self, target: &str) -> Command {
        let (is_own, name) = (self.is_stand_in("window"), &self.plan.name);
        Command::new("set-option")
            .args(["-wF", "-t", target, NAMING])
            .arg(format!("#{{?{is_own},{name},#{{{NAMING}}}}}"))
    }

    /// Gives the window its name back: a hook of the user that tmux runs after the launch's line may
    /// have renamed it. The task runs, so errors are not those of the launch.
    pub(super) async fn restore_name(&self, connection: &mut Connection<'_>, run: &NewRun) {
        let (pane, window) = (run.pane.to_string(), run.window.to_string());
        let name = &self.plan.name;
        let is_right = go_on_if(&pane, &format!("#{{==:#{{window_name}},{name}}}"));
        let mut answer = connection.run(&[is_right, forget_name(&window)]).await;
        if matches!(&answer, Err(TmuxError::Rejected { reply, .. }) if reply.ends_with(CHANGED)) {
            let rename = Command::new("rename-window").args(["-t", &window, name]);
            answer = connection.run(&[rename, forget_name(&window)]).await;
        }
        if let Err(error) = answer {
            tracing::debug!(%error, %window, "the name of a new window is not settled");
        }
    }

    /// Lists the window of this launch, wherever it is and whatever its name.
    fn list_launched(&self) -> Command {
        Command::new("list-panes")
            .args([
                "-a",
                "-f",
                &format!("#{{==:#{{{MARK}}},{}}}", self.plan.token),
                "-F",
            ])
            .arg(Self::launched_format())
    }

    /// Prints the target pane as [`LaunchLines::list_launched`] does, which reads all panes of the
    /// server.
    pub(super) fn show_launched(target: &str) -> Command {
        let format = Self::launched_format();
        Command::new("display-message").args(["-p", "-t", target, &format])
    }

    fn launched_format() -> String {
        format!("{SERVER_ENDS} {}", row_format())
    }

    /// Whether the answer to [`LaunchLines::show_launched`] shows a run of this launch.
    pub(super) fn has_launched(&self, frames: &[Frame]) -> bool {
        let text = frames.last().map(Frame::text).unwrap_or_default();
        text.lines().any(|line| {
            let row = line.get(2..).unwrap_or_default();
            row.split(' ').next_back() == Some(&self.plan.token)
        })
    }

    /// Parses the answer to [`LaunchLines::list_launched`] or [`LaunchLines::show_launched`].
    fn launched(
        &self,
        frames: &[Frame],
        replaced: Option<PreviousRun>,
    ) -> Result<Option<NewRun>, LaunchError> {
        let text = frames.last().map(Frame::text).unwrap_or_default();
        let ends = text.starts_with('1');
        let rows: Vec<&str> = text.lines().filter_map(|line| line.get(2..)).collect();
        let rows = rows.join("\n");
        let rows = first_panes(read_rows(&rows));
        let Some(row) = rows.into_iter().find(|row| row.token == self.plan.token) else {
            return Ok(None);
        };
        if ends {
            return Err(LaunchError::ServerEnds(self.plan.name.clone()));
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
        name: &str,
        root: Option<&Path>,
    ) -> Result<Option<NewRun>, LaunchError> {
        server.create_socket_folder()?;
        let pane_target = format!("{}:", self.session);
        let first = format!("{pane_target}^");
        let on_session = |name: &str, value: &str| {
            Command::new("set-option").args(["-t", &pane_target, name, value])
        };
        // The length of a history is fixed when its pane is created, so the session option has to
        // be set before: the session's first window is replaced by the task's.
        let begin = Command::new("new-session")
            .args(["-d", "-s", &literal_format(name)])
            .args(["-n", &self.plan.name]);
        let mut commands = vec![
            self.with_stand_in(begin, "session"),
            on_session("history-limit", HISTORY_LIMIT),
            on_session("destroy-unattached", "off"),
            on_session("bell-action", "any"),
        ];
        if let Some(root) = root.and_then(Path::to_str) {
            commands.push(on_session("@tmux_task_root", root));
        }
        let replace = self.new_window(&["-k", "-t", &first]);
        let add = self.new_window(&["-a", "-t", &format!("{pane_target}{{end}}")]);
        commands.push(
            Command::new("if-shell")
                .args(["-F", "-t", &first, &self.is_stand_in("session")])
                .args([control_line(&[replace]), control_line(&[add])]),
        );
        commands.push(self.start_in(&first));
        commands.push(self.list_launched());
        let mut connection = Connection::OneShot(server);
        let frames = connection.frames_unseen(&commands).await?;
        let has_made = self.made(&frames).is_some();
        match all_ok(&commands, frames.clone()) {
            Err(TmuxError::Rejected { command, reply })
                if command == "new-session" && reply.starts_with("duplicate session") =>
            {
                Ok(None)
            }
            Err(error) if !has_made => Err(error.into()),
            Ok(_) | Err(_) => {
                // The server may have begun with hooks of its configuration.
                self.created(&mut connection, &frames, UserHooks::WithinLine)
                    .await
            }
        }
    }

    /// Creates the window, unless the windows of its name have changed.
    /// Where no hook can run in between, the window begins with the task itself.
    async fn create_window(
        &self,
        connection: &mut Connection<'_>,
        named: &str,
        hooks: UserHooks,
    ) -> Result<Option<NewRun>, LaunchError> {
        let pane_target = format!("{}:", self.session);
        let end = format!("{pane_target}{{end}}");
        let is_same = are_named(&self.plan.name, named);
        let place = ["-a", "-t", &end];
        let mut line = vec![
            // Another session must not be used in place of one that is gone.
            Command::new("has-session").args(["-t", &self.session]),
            // Fails the line if the windows of the name have changed.
            Command::new("set-option")
                .args(["-F", "-t", &pane_target, "history-limit"])
                .arg(format!("#{{?{is_same},{HISTORY_LIMIT},{CHANGED}}}")),
        ];
        if hooks == UserHooks::WithinLine {
            // The task is started by the pane's id: another window may be the last one by then.
            line.extend([self.new_window(&place), self.note_name_in_own(&end)]);
        } else {
            line.extend([
                self.new_task_window(&place),
                // Fails the line if the last window is not the one of this launch.
                go_on_if(&end, &self.is_own()),
            ]);
            line.extend(option_commands(self.plan, &end, RunNumber::First));
            if hooks != UserHooks::None {
                line.push(self.note_name(&end));
            }
            line.push(Self::show_launched(&end));
        }
        let frames = connection.frames_unseen(&line).await?;
        let has_made = self.made(&frames).is_some();
        match all_ok(&line, frames.clone()) {
            Err(error) if !has_made && error.is_missing() => Ok(None),
            Err(TmuxError::Rejected { reply, .. }) if !has_made && reply.ends_with(CHANGED) => {
                Ok(None)
            }
            Err(error) if !has_made => Err(error.into()),
            Ok(_) | Err(_) => self.created(connection, &frames, hooks).await,
        }
    }

    /// Returns the pane that this launch has created, as these frames print it.
    fn made(&self, frames: &[Frame]) -> Option<String> {
        let beginning = format!("made-{} ", self.plan.token);
        let said = frames.iter().map(Frame::text);
        let said = said.collect::<Vec<_>>().join("\n");
        let pane = said.lines().find_map(|line| line.strip_prefix(&beginning));
        pane.map(str::to_owned)
    }

    /// Finds out whether this launch created a window and whether the task is in it. Otherwise the task
    /// is started now.
    async fn created(
        &self,
        connection: &mut Connection<'_>,
        frames: &[Frame],
        hooks: UserHooks,
    ) -> Result<Option<NewRun>, LaunchError> {
        let launched = self.launched(frames, None)?;
        if launched.is_some() && hooks == UserHooks::None {
            return Ok(launched);
        }
        let run = match launched {
            Some(run) => run,
            None => match self.made(frames) {
                Some(pane) => self.start_made(connection, &pane).await?,
                None => return Ok(None),
            },
        };
        self.restore_name(connection, &run).await;
        Ok(Some(run))
    }

    /// Starts the task in the window that this launch has created, if it does not run there.
    async fn start_made(
        &self,
        connection: &mut Connection<'_>,
        pane: &str,
    ) -> Result<NewRun, LaunchError> {
        // Another window was the last one if a client or a hook has created one meanwhile.
        if let Some(launched) = self.find_launched(connection).await? {
            return Ok(launched);
        }
        let commands = [
            // `if-shell` does not fail where its target is gone.
            Command::new("list-panes").args(["-t", pane, "-F", ""]),
            self.start_in(pane),
            self.mark_in(pane),
            self.list_launched(),
        ];
        let disturbed = || LaunchError::Disturbed(self.plan.name.clone());
        let gone = || LaunchError::Gone(self.plan.name.clone());
        match connection.run_unseen(&commands).await {
            Err(TmuxError::Rejected { reply, .. }) if reply.starts_with("can't find") => {
                Err(gone())
            }
            Err(error) if error.is_missing() => Err(gone()),
            answer => self.launched(&answer?, None)?.ok_or_else(disturbed),
        }
    }

    /// Runs the task again in its window; `None` when the window or one of the control clients is
    /// gone, when another client has come, or when the run must be kept and is alive again.
    async fn run_again(
        &self,
        connection: &mut Connection<'_>,
        slot: &LaunchRow,
        control_clients: &[String],
    ) -> Result<Option<NewRun>, LaunchError> {
        let pane = slot.pane.to_string();
        let mut line = vec![
            Command::new("display-message")
                .args(["-p", "-t", &pane])
                .arg("#{?pane_dead,dead,live}"),
            self.go_on_if_unchanged(slot),
        ];
        // If a client is gone, the line fails before anything is done.
        line.extend(pause_for(control_clients, slot.pane));
        line.push(
            // Set before the run ends, with the primary pane's own process: the window's active
            // pane may be another one.
            Command::new("set-option")
                .args(["-wF", "-t", &pane, "@tmux_task_replaced"])
                .arg("#{?pane_dead,#{@tmux_task_replaced},#{pane_pid}}"),
        );
        line.extend(option_commands(self.plan, &pane, RunNumber::Next));
        // A launcher that was killed has left it: the window would have two names for ever.
        line.push(forget_name(&pane));
        line.extend(self.respawn(&pane));
        line.extend(continue_for(control_clients, slot.pane));
        line.push(Self::show_launched(&pane));
        let frames = match connection.run_unseen(&line).await {
            Err(TmuxError::Rejected { reply, .. }) if is_contended(&reply) => return Ok(None),
            answer => answer?,
        };
        let was_live = frames
            .first()
            .is_some_and(|frame| frame.text().lines().any(|line| line == "live"));
        let replaced = if was_live {
            PreviousRun::Live
        } else {
            PreviousRun::Dead
        };
        self.launched(&frames, Some(replaced))
    }

    /// Fails the line if the window has another name by now, if a client has attached since they were
    /// listed, which would not be among those that the line pauses the pane for, or if a run that must
    /// be kept is alive.
    fn go_on_if_unchanged(&self, slot: &LaunchRow) -> Command {
        let is_same = format!(
            "#{{&&:{},{}}}",
            is_named(&self.plan.name),
            are_attached(&slot.attached)
        );
        let condition = match self.plan.replaces {
            Replaces::Any => is_same,
            Replaces::Ended => format!("#{{&&:#{{pane_dead}},{is_same}}}"),
            Replaces::EndedOr(pid) => {
                let may_end = format!("#{{||:#{{pane_dead}},#{{==:#{{pane_pid}},{pid}}}}}");
                format!("#{{&&:{may_end},{is_same}}}")
            }
        };
        let in_session = format!("{}:{}.{}", self.session, slot.window, slot.pane);
        go_on_if(&in_session, &condition)
    }

    /// Creates a window with a stand-in process, and prints its id.
    ///
    /// Hooks of the user may run right afterwards, and wait, rename and create windows: a command
    /// that has ended by then would have closed its window, and the last window might be another
    /// one.
    fn new_window(&self, place: &[&str]) -> Command {
        let made = format!("made-{} #{{pane_id}}", self.plan.token);
        let command = Command::new("new-window")
            .args(["-d", "-P", "-F", &made, "-n", &self.plan.name])
            .args(place.iter().copied());
        self.with_stand_in(command, "window")
    }

    /// Creates a window that begins with the task, and prints its pane. Its options are set in the
    /// same line, before tmux reads the task's output or learns of its end.
    fn new_task_window(&self, place: &[&str]) -> Command {
        let made = format!("made-{} #{{pane_id}}", self.plan.token);
        Command::new("new-window")
            .args(["-d", "-P", "-F", &made, "-n", &self.plan.name])
            .args(place.iter().copied())
            .args(["-c", &literal_format(&self.plan.cwd), "--"])
            .args(self.plan.words.iter().cloned())
    }

    /// Returns a format that is true for a pane that begins with the task of this launch: the name of
    /// the environment's file contains its token.
    fn is_own(&self) -> String {
        format!(
            "#{{m:*{PREFIX}{}*,#{{pane_start_command}}}}",
            self.plan.token
        )
    }

    /// Sets the options of a window that begins with the task, and notes its name, if the target is a
    /// window of this launch.
    fn mark_in(&self, target: &str) -> Command {
        let mut commands = option_commands(self.plan, target, RunNumber::First);
        commands.push(self.note_name(target));
        Command::new("if-shell")
            .args(["-F", "-t", target, &self.is_own()])
            .arg(control_line(&commands))
    }

    /// Adds a stand-in process, which prints nothing, ends by itself when it is no longer needed,
    /// and identifies its launch.
    fn with_stand_in(&self, command: Command, what: &str) -> Command {
        command
            .args(["-c", &literal_format(&self.plan.cwd), "--", "sh", "-c"])
            .arg("exec sleep 60")
            .arg(format!("{STAND_IN} {what}-{}", self.plan.token))
    }

    /// Returns a format that is true for a pane with such a stand-in.
    fn is_stand_in(&self, what: &str) -> String {
        format!(
            "#{{m:*{what}-{}*,#{{pane_start_command}}}}",
            self.plan.token
        )
    }

    /// Starts the task in the target, if this launch has created that window. Hooks of the user may
    /// have renamed it.
    fn start_in(&self, target: &str) -> Command {
        let mut commands = option_commands(self.plan, target, RunNumber::First);
        let name = &self.plan.name;
        let rename = Command::new("rename-window").args(["-t", target, name]);
        commands.push(self.note_name(target));
        commands.push(
            Command::new("if-shell")
                .args(["-F", "-t", target])
                .args([&format!("#{{==:#{{window_name}},{name}}}"), ""])
                .arg(control_line(&[rename])),
        );
        commands.extend(self.respawn(target));
        Command::new("if-shell")
            .args(["-F", "-t", target, &self.is_stand_in("window")])
            .arg(control_line(&commands))
    }

    /// Returns the commands that start the task in a pane.
    pub(super) fn respawn(&self, target: &str) -> [Command; 2] {
        [
            Command::new("respawn-pane")
                .args(["-k", "-t", target])
                .args(["-c", &literal_format(&self.plan.cwd), "--"])
                .args(self.plan.words.iter().cloned()),
            Command::new("clear-history").args(["-t", target]),
        ]
    }
}

/// Unsets the name that [`LaunchLines::note_name`] has noted.
fn forget_name(target: &str) -> Command {
    Command::new("set-option").args(["-wu", "-t", target, NAMING])
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
