//! The command lines of a launch, and how their answers are parsed.

use std::path::Path;

use super::client::{Connection, all_ok};
use super::error::TmuxError;
use super::inherited::{names_format, print_inherited};
use super::launch_plan::{LaunchError, LaunchPlan, NewRun, PreviousRun};
use super::recorded::RECORD;
use super::respawn::{
    ATTACHED_CLIENTS, are_attached, continue_for, list_control_clients, pause_for,
    read_control_clients,
};
use super::restart_option::set_restarts;
use super::rows::{
    IS_BARE, IS_LINKED, IS_MARKED, IS_NAMED_BY_TMUX, IS_OWN_PANE, NOT_THE_TASK, STAND_IN, TASK_PANE,
};
use super::server::Server;
use super::task_environment::PREFIX;
use crate::model::{PaneId, Replaces, SessionLife, WindowId};
use crate::protocol::{Command, Frame, control_line, literal_format};

/// The history limit of a task's pane, in rows.
const HISTORY_LIMIT: &str = "50000";

/// The windows with the task's name.
struct Windows {
    /// Those that are tasks.
    slots: Vec<Slot>,
    /// tmux's description of all of them: as long as it is the same, the windows are.
    named: String,
    /// The names of the server's control clients.
    control_clients: Vec<String>,
    /// Whether a hook of the user runs when a window is created.
    has_hook: bool,
    /// Those of [`OWN`] that all windows inherit, in words.
    inherited: Option<String>,
    /// Those of [`OWN`] that the session's windows inherit from it, in words.
    of_session: Option<String>,
}

#[derive(Debug, Clone)]
struct Slot {
    life: SessionLife,
    window: WindowId,
    pane: PaneId,
    /// The process that tmux has started in it.
    pid: Option<u32>,
    run: u32,
    is_dead: bool,
    /// The attached clients of the server; see [`ATTACHED_CLIENTS`].
    attached: String,
    /// Whether it is a task, and not a shell that tmux has named after its program.
    is_task: bool,
}

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

const MARK: &str = "@tmux_task_launch";

/// The window option with the name of a task whose launch has created the window and is not done.
const NAMING: &str = "@tmux_task_naming";

/// What tmux refuses as the value of an option when a launch has to start over.
const CHANGED: &str = "changed-meanwhile";

/// Options that a window may not inherit when a task is launched: with the first two any shell would
/// count as a task, and be replaced; the last one would hide which window this launch has created.
const OWN: [&str; 3] = ["@tmux_task_command", "@pi_task_command", MARK];

/// 1 where the server ends with its last client, and no client is attached.
const SERVER_ENDS: &str = "#{?exit-unattached,#{?#{m:*[1-9]*,#{S:#{session_attached}}},0,1},0}";

/// The hook that runs, and may wait, right after a window was created.
const HOOK: &str = "after-new-window";

/// The window option with the owner of its task.
const OWNER: &str = "@tmux_task_owner";

impl<'a> LaunchLines<'a> {
    pub(super) fn new(plan: &'a LaunchPlan, session: String) -> Self {
        Self { plan, session }
    }

    /// Reads the windows of the name, and launches accordingly.
    pub(super) async fn attempt(
        &self,
        connection: &mut Connection<'_>,
    ) -> Result<Attempt, LaunchError> {
        let Windows {
            slots,
            named,
            control_clients,
            has_hook,
            inherited,
            of_session,
        } = match self.find_windows(connection).await? {
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
            [] => {
                let run = self.create_window(connection, &named, has_hook).await?;
                if let Some(run) = &run {
                    self.settle_name(connection, run).await;
                }
                run
            }
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

    /// Returns a format that describes the windows of the name in one word.
    fn named_format(&self) -> String {
        format!("#{{W:#{{?{},#{{window_id}}+,}}}}", self.is_named())
    }

    /// Returns a format that is true for a window of the name, and for one in which the name is noted
    /// because a launch has created it and is not done.
    fn is_named(&self) -> String {
        let name = &self.plan.name;
        format!("#{{||:#{{==:#{{window_name}},{name}}},#{{==:#{{{NAMING}}},{name}}}}}")
    }

    /// Gives the window its name back: a hook of the user that tmux runs after the launch's line may
    /// have renamed it. The task runs, so errors are not those of the launch.
    async fn settle_name(&self, connection: &mut Connection<'_>, run: &NewRun) {
        let (pane, window) = (run.pane.to_string(), run.window.to_string());
        let name = &self.plan.name;
        let forget = || Command::new("set-option").args(["-wu", "-t", &window, NAMING]);
        let is_right = go_on_if(&pane, &format!("#{{==:#{{window_name}},{name}}}"));
        let mut answer = connection.run(&[is_right, forget()]).await;
        if matches!(&answer, Err(TmuxError::Rejected { reply, .. }) if reply.ends_with(CHANGED)) {
            let rename = Command::new("rename-window").args(["-t", &window, name]);
            answer = connection.run(&[rename, forget()]).await;
        }
        if let Err(error) = answer {
            tracing::debug!(%error, %window, "the name of a new window is not settled");
        }
    }

    /// Returns the format for a pane in the list; see [`read_row`]. `named` is the format that
    /// describes the windows of the name, or nothing where that is not needed.
    fn row_format(named: &str) -> String {
        // A task was marked by a launcher, or opened with a command and named by a user. Of windows
        // that are linked into further sessions only marked ones: the others belong there.
        let is_users = format!("#{{||:#{{||:{IS_BARE},{IS_NAMED_BY_TMUX}}},{IS_LINKED}}}");
        let is_task = format!("#{{?{IS_MARKED},1,#{{?{is_users},0,1}}}}");
        let is_task = format!("#{{?{},{is_task},0}}", *IS_OWN_PANE);
        format!(
            "#{{pid}} #{{start_time}} #{{session_id}} #{{session_created}} \
             #{{window_id}} #{{pane_id}} #{{pane_pid}} #{{pane_dead}} {ATTACHED_CLIENTS} {is_task} \
             +{named} #{{@tmux_task_run}} #{{{MARK}}}"
        )
    }

    /// Returns the windows of the name; `None` when the session is missing.
    async fn find_windows(
        &self,
        connection: &mut Connection<'_>,
    ) -> Result<Option<Windows>, TmuxError> {
        // Without the colon tmux would also search for a window of that name.
        let list = Command::new("list-panes")
            .args(["-s", "-t", &format!("{}:", self.session)])
            .args(["-f", &self.is_named()])
            .args(["-F", &Self::row_format(&self.named_format())]);
        let pane_target = format!("{}:", self.session);
        let ask = [
            list_control_clients(),
            list,
            Command::new("show-hooks").args(["-g", HOOK]),
            Command::new("show-hooks").args(["-t", &pane_target, HOOK]),
            print_inherited(&names_format(&OWN)),
        ];
        // A format also finds these, but cannot tell whose they are.
        let of_session =
            OWN.map(|name| Command::new("show-options").args(["-q", "-t", &pane_target, name]));
        let ask: Vec<Command> = ask.into_iter().chain(of_session).collect();
        match connection.run(&ask).await {
            Err(error) if error.is_missing() => Ok(None),
            answer => {
                let frames = answer?;
                let text = frames.get(1).map(Frame::text).unwrap_or_default();
                let rows = read_rows(&text);
                let inherited = frames.get(4).map(Frame::text).unwrap_or_default();
                Ok(Some(Windows {
                    named: rows.first().map_or("", |row| row.named).to_owned(),
                    slots: rows
                        .into_iter()
                        .map(|row| row.slot)
                        .filter(|slot| slot.is_task)
                        .collect(),
                    control_clients: frames.first().map(read_control_clients).unwrap_or_default(),
                    has_hook: frames.iter().any(is_hook_set),
                    inherited: in_words(&inherited.split_whitespace().collect::<Vec<_>>()),
                    of_session: in_words(&read_own(frames.get(5..).unwrap_or_default())),
                }))
            }
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
        format!("{SERVER_ENDS} {}", Self::row_format(""))
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
        let Some(row) = read_rows(&rows)
            .into_iter()
            .find(|row| row.mark == self.plan.token)
        else {
            return Ok(None);
        };
        if ends {
            return Err(LaunchError::ServerEnds(self.plan.name.clone()));
        }
        Ok(Some(NewRun {
            life: row.slot.life.clone(),
            window: row.slot.window,
            pane: row.slot.pane,
            run: row.slot.run,
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
                let run = self.created(&mut connection, &frames).await?;
                if let Some(run) = &run {
                    self.settle_name(&mut connection, run).await;
                }
                Ok(run)
            }
        }
    }

    /// Creates the window, unless the windows of its name have changed.
    /// Where no hook can run in between, the window begins with the task itself.
    async fn create_window(
        &self,
        connection: &mut Connection<'_>,
        named: &str,
        has_hook: bool,
    ) -> Result<Option<NewRun>, LaunchError> {
        let pane_target = format!("{}:", self.session);
        let end = format!("{pane_target}{{end}}");
        let is_same = format!("#{{==:{},{named}}}", self.named_format());
        let place = ["-a", "-t", &end];
        let mut line = vec![
            // Another session must not be used in place of one that is gone.
            Command::new("has-session").args(["-t", &self.session]),
            // Fails the line if the windows of the name have changed.
            Command::new("set-option")
                .args(["-F", "-t", &pane_target, "history-limit"])
                .arg(format!("#{{?{is_same},{HISTORY_LIMIT},{CHANGED}}}")),
        ];
        if has_hook {
            line.extend([
                self.new_window(&place),
                self.start_in(&end),
                self.list_launched(),
            ]);
        } else {
            line.extend([
                self.new_task_window(&place),
                // Fails the line if the last window is not the one of this launch.
                go_on_if(&end, &self.is_own()),
            ]);
            line.extend(self.window_options(&end, Count::First));
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
            Ok(_) | Err(_) => self.created(connection, &frames).await,
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

    /// Finds out whether this launch created a window and whether the task is in it. If a hook of
    /// the user has created another window meanwhile, the task is started now.
    async fn created(
        &self,
        connection: &mut Connection<'_>,
        frames: &[Frame],
    ) -> Result<Option<NewRun>, LaunchError> {
        if let Some(launched) = self.launched(frames, None)? {
            return Ok(Some(launched));
        }
        let Some(pane) = self.made(frames) else {
            return Ok(None);
        };
        // The window is no longer the last one if another client has created one since.
        if let Some(launched) = self.find_launched(connection).await? {
            return Ok(Some(launched));
        }
        let commands = [
            // `if-shell` does not fail where its target is gone.
            Command::new("list-panes").args(["-t", &pane, "-F", ""]),
            self.start_in(&pane),
            self.mark_in(&pane),
            self.list_launched(),
        ];
        let disturbed = || LaunchError::Disturbed(self.plan.name.clone());
        let gone = || LaunchError::Gone(self.plan.name.clone());
        match connection.run_unseen(&commands).await {
            Err(TmuxError::Rejected { reply, .. }) if reply.starts_with("can't find") => {
                Err(gone())
            }
            Err(error) if error.is_missing() => Err(gone()),
            answer => self
                .launched(&answer?, None)?
                .ok_or_else(disturbed)
                .map(Some),
        }
    }

    /// Runs the task again in its window; `None` when the window or one of the control clients is
    /// gone, when another client has come, or when the run must be kept and is alive again.
    async fn run_again(
        &self,
        connection: &mut Connection<'_>,
        slot: &Slot,
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
        line.extend(self.window_options(&pane, Count::Next));
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
    fn go_on_if_unchanged(&self, slot: &Slot) -> Command {
        let is_same = format!(
            "#{{&&:{},{}}}",
            self.is_named(),
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

    /// Sets the options of a window that begins with the task, if the target is a window of this
    /// launch.
    fn mark_in(&self, target: &str) -> Command {
        Command::new("if-shell")
            .args(["-F", "-t", target, &self.is_own()])
            .arg(control_line(&self.window_options(target, Count::First)))
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
        let mut commands = self.window_options(target, Count::First);
        let name = &self.plan.name;
        let rename = Command::new("rename-window").args(["-t", target, name]);
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

    /// Returns the commands that describe the task on its window.
    pub(super) fn window_options(&self, target: &str, count: Count) -> Vec<Command> {
        let set = |flags: &str, name: &str, value: &str| {
            Command::new("set-option").args([flags, "-t", target, name, value])
        };
        let mut options = vec![
            set("-w", "remain-on-exit", "on"),
            set("-w", "monitor-bell", "on"),
            set("-w", "automatic-rename", "off"),
            set("-w", "allow-rename", "off"),
            set("-w", "@tmux_task_command", &self.plan.command),
            set("-w", "@tmux_task_cwd", &self.plan.cwd),
            set("-w", "@tmux_task_started", &self.plan.started.to_string()),
            match &self.plan.record {
                Some(record) => set("-w", RECORD, record),
                None => Command::new("set-option").args(["-wu", "-t", target, RECORD]),
            },
            set_restarts(target, self.plan.restarts.as_ref(), self.plan.started),
            set("-w", MARK, &self.plan.token),
            set("-w", TASK_PANE, NOT_THE_TASK),
            set("-pF", TASK_PANE, "#{window_id}"),
            match &self.plan.owner {
                Some(owner) => set("-w", OWNER, owner),
                None => Command::new("set-option").args(["-wu", "-t", target, OWNER]),
            },
            match count {
                Count::First => set("-w", "@tmux_task_run", "1"),
                // A window that was never counted had its first run.
                Count::Next => set(
                    "-wF",
                    "@tmux_task_run",
                    "#{e|+:#{?@tmux_task_run,#{@tmux_task_run},1},1}",
                ),
            },
        ];
        if let Count::First = count {
            options.push(set("-w", NAMING, &self.plan.name));
        }
        options
    }
}

/// Whether this is what tmux shows of [`HOOK`] where it is set: `after-new-window[0] COMMAND`.
fn is_hook_set(frame: &Frame) -> bool {
    let is_set = |line: &str| {
        line.strip_prefix(HOOK)
            .is_some_and(|rest| rest.starts_with('['))
    };
    frame.text().lines().any(is_set)
}

/// Returns those of [`OWN`] that have a value, given what `show-options` prints of each.
fn read_own(frames: &[Frame]) -> Vec<&'static str> {
    let own = OWN.into_iter().zip(frames);
    let is_set = |(name, frame): &(&str, &Frame)| {
        let text = frame.text();
        let value = text.strip_prefix(name).map(str::trim);
        value.is_some_and(|value| !matches!(value, "" | "''"))
    };
    own.filter(is_set).map(|(name, _)| name).collect()
}

/// Lists options: `@a is` or `@a, @b are`; `None` without any.
fn in_words(names: &[&str]) -> Option<String> {
    match names {
        [] => None,
        [name] => Some(format!("{name} is")),
        names => Some(format!("{} are", names.join(", "))),
    }
}

/// The number of a launched run.
pub(super) enum Count {
    /// The first of its window.
    First,
    /// The one after the window's last.
    Next,
}

/// One window of a list.
#[derive(Debug)]
struct Row<'a> {
    slot: Slot,
    named: &'a str,
    mark: &'a str,
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

/// Parses the list, one row per window: that of its pane with the lowest id.
fn read_rows(text: &str) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for row in text.lines().filter_map(read_row) {
        match rows
            .iter_mut()
            .find(|known| known.slot.window == row.slot.window)
        {
            Some(known) if row.slot.pane < known.slot.pane => *known = row,
            Some(_) => {}
            None => rows.push(row),
        }
    }
    rows
}

fn read_row(line: &str) -> Option<Row<'_>> {
    let mut fields = line.splitn(13, ' ');
    let life = SessionLife {
        server_pid: fields.next()?.parse().ok()?,
        server_started: fields.next()?.parse().ok()?,
        id: fields.next()?.parse().ok()?,
        created: fields.next()?.parse().ok()?,
    };
    let window = fields.next()?.parse().ok()?;
    let pane = fields.next()?.parse().ok()?;
    let pid = fields.next()?.parse().ok();
    let is_dead = fields.next()? == "1";
    let attached = fields.next()?.to_owned();
    let is_task = fields.next()? == "1";
    let named = fields.next()?.strip_prefix('+')?;
    let run = fields.next()?.parse().unwrap_or(1);
    let mark = fields.next()?;
    let slot = Slot {
        life,
        window,
        pane,
        pid,
        run,
        is_dead,
        attached,
        is_task,
    };
    Some(Row { slot, named, mark })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_set_where_tmux_shows_what_it_runs() {
        let shown = |text: &str| Frame {
            time: 0,
            number: 1,
            flags: 1,
            ok: true,
            body: text.lines().map(|line| line.as_bytes().to_vec()).collect(),
        };
        assert!(is_hook_set(&shown("after-new-window[5] run-shell true")));
        for text in ["", "after-new-window", "after-new-windows[0] x"] {
            assert!(!is_hook_set(&shown(text)), "{text}");
        }
    }

    #[test]
    fn the_lowest_pane_is_the_slot() {
        let rows = read_rows(
            "1 2 $0 3 @1 %7 11 0 +a,b+ 0 +@1+@4+ 3 m\n1 2 $0 3 @1 %2 12 1 +a,b+ 1 +@1+@4+ 3 m\n\
             1 2 $0 3 @4 %5 13 0 +a,b+ 0 +@1+@4+  \nrubbish",
        );
        let list: Vec<_> = rows
            .iter()
            .map(|row| (row.slot.window.0, row.slot.pane.0, row.slot.run, row.mark))
            .collect();
        assert_eq!(list, [(1, 2, 3, "m"), (4, 5, 1, "")]);
        let list: Vec<_> = rows
            .iter()
            .map(|row| (row.slot.is_dead, row.slot.is_task, row.named))
            .collect();
        assert_eq!(list, [(true, true, "@1+@4+"), (false, false, "@1+@4+")]);
        assert!(rows.iter().all(|row| row.slot.attached == "+a,b+"));
    }
}
