//! Starting a task, or running it again, in its slot.
//!
//! tmux is the lock: each step is one line of commands, which the server runs without anything
//! in between. A step that finds the world changed since the question starts over.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::client::Connection;
use super::error::TmuxError;
use super::respawn::{continue_for, list_control_clients, pause_for, read_control_clients};
use super::rows::{IS_BARE, STAND_IN};
use super::script::CommandWords;
use super::server::Server;
use super::task_environment::{EnvironmentFile, TaskEnvironment};
use crate::model::{Millis, PaneId, SessionLife, WindowId};
use crate::protocol::{Command, Frame, control_line, literal_format};

/// How many rows of history a task's pane keeps.
const HISTORY_LIMIT: &str = "50000";

/// How often a launch starts over before it gives up.
const ATTEMPTS: usize = 20;

/// How often it waits for a server that others may be starting, and how long each time.
const START_ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The task session's name.
    pub session: String,
    /// The task's name.
    pub name: String,
    /// Where the command runs: an existing directory, absolute.
    pub cwd: PathBuf,
    /// The command's environment.
    pub environment: TaskEnvironment,
    /// Where the environment waits to be read: a folder that is the user's alone.
    pub runtime: PathBuf,
    /// Who asks for it.
    pub owner: Option<String>,
    /// The command.
    pub command: CommandWords,
    /// What it waits for before it begins.
    pub gate: Option<PathBuf>,
    /// The project's absolute path, for a session that has to be made.
    pub root: Option<PathBuf>,
    /// When the launch was asked for.
    pub started: Millis,
    /// Whether a live run stays, and the launch fails.
    pub only_if_absent: bool,
}

/// What a launch has put an end to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// A run that was alive.
    Live,
    /// A window whose run had ended.
    Dead,
}

/// What was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// The session's life in which it was.
    pub life: SessionLife,
    /// The task.
    pub window: WindowId,
    /// Its primary pane.
    pub pane: PaneId,
    /// Which run of the task it is, from 1.
    pub run: u32,
    /// The run that was in the window before; `None` when the window was made for this one.
    pub replaced: Option<Replaced>,
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The name is not one for a task.
    #[error(
        "`{0}` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit"
    )]
    Name(String),
    /// tmux would change the session's name, or not find it again.
    #[error("`{0}` is not a session name: it may not be empty or contain `.` or `:`")]
    Session(String),
    /// The environment cannot be written for the task to read.
    #[error("could not write the task's environment to {}", .folder.display())]
    Environment {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The directory is not there.
    #[error("`{}` is not a directory to run in", .0.display())]
    Directory(PathBuf),
    /// The directory has a name that neither tmux nor the feed can carry.
    #[error("cannot run in `{}`: its name is not UTF-8", .0.display())]
    DirectoryName(PathBuf),
    /// Which of them is the slot?
    #[error("two windows are named `{name}`: {first} and {second}")]
    Ambiguous {
        /// The name.
        name: String,
        /// One of them.
        first: WindowId,
        /// Another.
        second: WindowId,
    },
    /// A live run was to stay.
    #[error("task `{name}` is running in {window}")]
    Running {
        /// The task.
        name: String,
        /// Its window.
        window: WindowId,
    },
    /// The window was made, and the task is not in it.
    #[error("the window that was made for task `{0}` was changed before the task could start")]
    Disturbed(String),
    /// The server goes as soon as nobody is attached.
    #[error(
        "task `{0}` ends as soon as it was started: tmux's option exit-unattached is on, and no \
         client is attached"
    )]
    ServerEnds(String),
    /// Each attempt found a session that had changed since it was read.
    #[error("the session changed during each of {ATTEMPTS} attempts; run the command again")]
    Contended,
    /// tmux.
    #[error(transparent)]
    Tmux(#[from] TmuxError),
}

/// Checks a task's name: 1 to 40 of `A-Za-z0-9._-`, the first a letter or digit.
///
/// # Errors
///
/// Says what is allowed.
pub fn check_name(name: &str) -> Result<(), LaunchError> {
    let first = name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    let rest = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if first && rest && name.len() <= 40 {
        Ok(())
    } else {
        let shown = crate::model::text::one_line(name.as_bytes(), 60);
        Err(LaunchError::Name(shown))
    }
}

/// Starts the task in its slot: makes the session and the window where they are missing, and
/// else runs it again in the window of that name, where it puts an end to a live run.
///
/// # Errors
///
/// When the input is refused, before tmux is touched; when two windows have the name; when tmux
/// fails.
pub async fn launch(
    connection: &mut Connection<'_>,
    server: &Server,
    launch: &Launch,
) -> Result<Launched, LaunchError> {
    let plan = Plan::new(launch).await?;
    let mut no_server = None;
    for attempt in 0..ATTEMPTS {
        let done = match plan.find(connection).await? {
            Found::NoSession => match plan.create_session(server).await {
                // Clients that start one server together can each take another's for theirs, and
                // see it exit.
                Err(LaunchError::Tmux(error)) if error.is_missing() && attempt < START_ATTEMPTS => {
                    no_server = Some(error);
                    tokio::time::sleep(PAUSE).await;
                    None
                }
                done => done?,
            },
            Found::Windows {
                slots,
                named,
                control_clients,
            } => match slots.as_slice() {
                [] => plan.create_window(connection, &named).await?,
                [slot] if launch.only_if_absent && !slot.is_dead => {
                    return Err(LaunchError::Running {
                        name: launch.name.clone(),
                        window: slot.window,
                    });
                }
                [slot] => plan.run_again(connection, slot, &control_clients).await?,
                [first, second, ..] => {
                    return Err(LaunchError::Ambiguous {
                        name: launch.name.clone(),
                        first: first.window,
                        second: second.window,
                    });
                }
            },
        };
        if let Some(launched) = done {
            plan.file.hand_over();
            return Ok(launched);
        }
    }
    Err(no_server.map_or(LaunchError::Contended, LaunchError::Tmux))
}

/// The answer to: which windows have the name?
enum Found {
    NoSession,
    Windows {
        /// Those that are tasks.
        slots: Vec<Slot>,
        /// What tmux says of all of them: as long as that is the same, so are they.
        named: String,
        /// The names of the server's control clients.
        control_clients: Vec<String>,
    },
}

#[derive(Debug, Clone)]
struct Slot {
    life: SessionLife,
    window: WindowId,
    pane: PaneId,
    run: u32,
    is_dead: bool,
    /// Not a shell that somebody opened, and that tmux has named after what runs in it.
    is_task: bool,
}

/// A launch whose input is proven.
struct Plan<'a> {
    launch: &'a Launch,
    cwd: &'a str,
    /// `=NAME`
    session: String,
    /// Tells a window that this very launch made.
    mark: String,
    file: EnvironmentFile,
    /// What the pane runs.
    words: Vec<String>,
}

const MARK: &str = "@tmux_task_launch";

/// 1 where the server ends with its last client, and none is attached.
const SERVER_ENDS: &str = "#{?exit-unattached,#{?#{m:*[1-9]*,#{S:#{session_attached}}},0,1},0}";

/// Who asked for the window's task.
const OWNER: &str = "@tmux_task_owner";

impl<'a> Plan<'a> {
    async fn new(launch: &'a Launch) -> Result<Self, LaunchError> {
        check_name(&launch.name)?;
        let session = &launch.session;
        if session.is_empty() || session.contains(['.', ':', '\0', '\n']) {
            let shown = crate::model::text::one_line(session.as_bytes(), 60);
            return Err(LaunchError::Session(shown));
        }
        if !is_directory(&launch.cwd) {
            return Err(LaunchError::Directory(launch.cwd.clone()));
        }
        let cwd = launch.cwd.to_str();
        let cwd = cwd.ok_or_else(|| LaunchError::DirectoryName(launch.cwd.clone()))?;
        let mark = format!("{}-{}", std::process::id(), unique());
        let no_file = |source| LaunchError::Environment {
            folder: launch.runtime.clone(),
            source,
        };
        let file = launch.environment.write(&launch.runtime, &mark).await;
        let file = file.map_err(no_file)?;
        let path = file.path();
        let path = path.ok_or_else(|| no_file(std::io::ErrorKind::InvalidFilename.into()))?;
        let names = [
            ("TMUX_TASK_SESSION", session.as_str()),
            ("PI_TMUX_SESSION", session),
            ("TMUX_TASK_NAME", &launch.name),
        ];
        let gate = launch.gate.as_deref().and_then(Path::to_str);
        let words = launch
            .command
            .pane_words(&names, &launch.environment, path, gate);
        Ok(Self {
            launch,
            cwd,
            session: format!("={session}"),
            mark,
            words,
            file,
        })
    }

    /// What tmux says of the windows of the name, in one word.
    fn named_format(&self) -> String {
        format!(
            "#{{W:#{{?#{{==:#{{window_name}},{}}},#{{window_id}}+,}}}}",
            self.launch.name
        )
    }

    /// What is listed of a pane; see [`read_row`].
    fn row_format(&self) -> String {
        // A task was marked by a launcher, or opened with a command.
        let is_marked = "#{||:#{@tmux_task_command},#{@pi_task_command}}";
        let is_task = format!("#{{?{is_marked},1,#{{?{IS_BARE},0,1}}}}");
        format!(
            "#{{pid}} #{{start_time}} #{{session_id}} #{{session_created}} \
             #{{window_id}} #{{pane_id}} #{{pane_dead}} {is_task} \
             +{} #{{@tmux_task_run}} #{{{MARK}}}",
            self.named_format()
        )
    }

    async fn find(&self, connection: &mut Connection<'_>) -> Result<Found, TmuxError> {
        // Without the colon tmux goes on to look for a window of that name.
        let list = Command::new("list-panes")
            .args(["-s", "-t", &format!("{}:", self.session)])
            .args([
                "-f",
                &format!("#{{==:#{{window_name}},{}}}", self.launch.name),
            ])
            .args(["-F", &self.row_format()]);
        match connection.run(&[list_control_clients(), list]).await {
            Err(error) if error.is_missing() => Ok(Found::NoSession),
            answer => {
                let frames = answer?;
                let text = frames.last().map(Frame::text).unwrap_or_default();
                let rows = read_rows(&text);
                Ok(Found::Windows {
                    named: rows.first().map_or("", |row| row.named).to_owned(),
                    slots: rows
                        .into_iter()
                        .map(|row| row.slot)
                        .filter(|slot| slot.is_task)
                        .collect(),
                    control_clients: frames.first().map(read_control_clients).unwrap_or_default(),
                })
            }
        }
    }

    /// Lists the window of this launch, wherever it is and whatever its name.
    fn list_launched(&self) -> Command {
        Command::new("list-panes")
            .args([
                "-a",
                "-f",
                &format!("#{{==:#{{{MARK}}},{}}}", self.mark),
                "-F",
            ])
            .arg(format!("{SERVER_ENDS} {}", self.row_format()))
    }

    /// Reads what [`Plan::list_launched`] said.
    fn launched(
        &self,
        frames: &[Frame],
        replaced: Option<Replaced>,
    ) -> Result<Option<Launched>, LaunchError> {
        let text = frames.last().map(Frame::text).unwrap_or_default();
        let ends = text.starts_with('1');
        let rows: Vec<&str> = text.lines().filter_map(|line| line.get(2..)).collect();
        let rows = rows.join("\n");
        let Some(row) = read_rows(&rows)
            .into_iter()
            .find(|row| row.mark == self.mark)
        else {
            return Ok(None);
        };
        if ends {
            return Err(LaunchError::ServerEnds(self.launch.name.clone()));
        }
        Ok(Some(Launched {
            life: row.slot.life.clone(),
            window: row.slot.window,
            pane: row.slot.pane,
            run: row.slot.run,
            replaced,
        }))
    }

    /// Makes the session with the task as its only window; `None` when somebody was faster.
    async fn create_session(&self, server: &Server) -> Result<Option<Launched>, LaunchError> {
        server.create_socket_folder()?;
        let pane_target = format!("{}:", self.session);
        let first = format!("{pane_target}^");
        let on_session = |name: &str, value: &str| {
            Command::new("set-option").args(["-t", &pane_target, name, value])
        };
        // The length of a history is fixed when its pane is made, so the session's own option has
        // to be there before: the session's first window makes room for the task's.
        let begin = Command::new("new-session")
            .args(["-d", "-s", &literal_format(&self.launch.session)])
            .args(["-n", &self.launch.name]);
        let mut commands = vec![
            self.with_stand_in(begin, "session"),
            on_session("history-limit", HISTORY_LIMIT),
            on_session("destroy-unattached", "off"),
            on_session("bell-action", "any"),
        ];
        if let Some(root) = self.launch.root.as_deref().and_then(Path::to_str) {
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
        match connection.run_unseen(&commands).await {
            Err(TmuxError::Rejected { command, reply })
                if command == "new-session" && reply.starts_with("duplicate session") =>
            {
                Ok(None)
            }
            answer => self.created(&mut connection, &answer?).await,
        }
    }

    /// Makes the window unless the windows of its name are others by then.
    async fn create_window(
        &self,
        connection: &mut Connection<'_>,
        named: &str,
    ) -> Result<Option<Launched>, LaunchError> {
        let pane_target = format!("{}:", self.session);
        let end = format!("{pane_target}{{end}}");
        let make = [
            Command::new("set-option").args(["-t", &pane_target, "history-limit", HISTORY_LIMIT]),
            self.new_window(&["-a", "-t", &end]),
            self.start_in(&end),
        ];
        let is_same = format!("#{{==:{},{named}}}", self.named_format());
        let commands = [
            // Another session must not stand in for one that has gone.
            Command::new("has-session").args(["-t", &self.session]),
            Command::new("if-shell")
                .args(["-F", "-t", &pane_target, &is_same])
                .arg(control_line(&make)),
            self.list_launched(),
        ];
        match connection.run_unseen(&commands).await {
            Err(error) if error.is_missing() => Ok(None),
            answer => {
                let frames = answer?;
                self.created(connection, &frames).await
            }
        }
    }

    /// Finds out whether this launch made a window, and whether the task is in it: where a hook of
    /// the user has made another window meanwhile, it is started now.
    async fn created(
        &self,
        connection: &mut Connection<'_>,
        frames: &[Frame],
    ) -> Result<Option<Launched>, LaunchError> {
        if let Some(launched) = self.launched(frames, None)? {
            return Ok(Some(launched));
        }
        let beginning = format!("made-{} ", self.mark);
        let said = frames
            .iter()
            .map(Frame::text)
            .collect::<Vec<_>>()
            .join("\n");
        let made = said.lines().find_map(|line| line.strip_prefix(&beginning));
        let Some(pane) = made else { return Ok(None) };
        let commands = [self.start_in(pane), self.list_launched()];
        let disturbed = || LaunchError::Disturbed(self.launch.name.clone());
        match connection.run_unseen(&commands).await {
            Err(TmuxError::Rejected { reply, .. }) if reply.starts_with("can't find") => {
                Err(disturbed())
            }
            answer => self
                .launched(&answer?, None)?
                .ok_or_else(disturbed)
                .map(Some),
        }
    }

    /// Runs the task again in its window; `None` when the window or one of the control clients has
    /// gone, or when the run is alive again and was to stay then.
    async fn run_again(
        &self,
        connection: &mut Connection<'_>,
        slot: &Slot,
        control_clients: &[String],
    ) -> Result<Option<Launched>, LaunchError> {
        let pane = slot.pane.to_string();
        // First in the line: one that fails must leave nothing half done.
        let mut commands: Vec<Command> = pause_for(control_clients, slot.pane).collect();
        commands.push(
            // Said before the run ends, with the pane's own process: the window's active pane
            // may be another.
            Command::new("set-option")
                .args(["-wF", "-t", &pane, "@tmux_task_replaced"])
                .arg("#{?pane_dead,#{@tmux_task_replaced},#{pane_pid}}"),
        );
        commands.extend(self.start_commands(&pane, Count::Next));
        commands.extend(continue_for(control_clients, slot.pane));
        let mut line = vec![
            Command::new("display-message")
                .args(["-p", "-t", &pane])
                .arg("#{?pane_dead,dead,live}"),
        ];
        if self.launch.only_if_absent {
            line.push(
                Command::new("if-shell")
                    .args(["-F", "-t", &pane, "#{pane_dead}"])
                    .arg(control_line(&commands)),
            );
        } else {
            line.extend(commands);
        }
        line.push(self.list_launched());
        let frames = match connection.run_unseen(&line).await {
            Err(TmuxError::Rejected { reply, .. }) if reply.starts_with("can't find") => {
                return Ok(None);
            }
            answer => answer?,
        };
        let was_live = frames
            .first()
            .is_some_and(|frame| frame.text().lines().any(|line| line == "live"));
        let replaced = if was_live {
            Replaced::Live
        } else {
            Replaced::Dead
        };
        self.launched(&frames, Some(replaced))
    }

    /// Makes a window that begins with a stand-in, and says which.
    ///
    /// Hooks of the user may run right after, and wait, rename and make windows: a command that has
    /// ended by then would have taken its window along, and the last window might be another.
    fn new_window(&self, place: &[&str]) -> Command {
        let made = format!("made-{} #{{pane_id}}", self.mark);
        let command = Command::new("new-window")
            .args(["-d", "-P", "-F", &made, "-n", &self.launch.name])
            .args(place.iter().copied());
        self.with_stand_in(command, "window")
    }

    /// A process that prints nothing, ends by itself when nobody needs it any more, and says whose
    /// it is.
    fn with_stand_in(&self, command: Command, what: &str) -> Command {
        command
            .args(["-c", &literal_format(self.cwd), "--", "sh", "-c"])
            .arg("exec sleep 60")
            .arg(format!("{STAND_IN} {what}-{}", self.mark))
    }

    /// The format that is true of a pane with such a stand-in.
    fn is_stand_in(&self, what: &str) -> String {
        format!("#{{m:*{what}-{}*,#{{pane_start_command}}}}", self.mark)
    }

    /// Starts the task in a window that this launch has made, if the target is one.
    fn start_in(&self, target: &str) -> Command {
        Command::new("if-shell")
            .args(["-F", "-t", target, &self.is_stand_in("window")])
            .arg(control_line(&self.start_commands(target, Count::First)))
    }

    /// What makes the window the task's, and starts it.
    fn start_commands(&self, target: &str, count: Count) -> Vec<Command> {
        let mut commands = self.window_options(target, count);
        let name = &self.launch.name;
        let rename = Command::new("rename-window").args(["-t", target, name]);
        commands.push(
            Command::new("if-shell")
                .args(["-F", "-t", target])
                .args([&format!("#{{==:#{{window_name}},{name}}}"), ""])
                .arg(control_line(&[rename])),
        );
        commands.push(
            Command::new("respawn-pane")
                .args(["-k", "-t", target])
                .args(["-c", &literal_format(self.cwd), "--"])
                .args(self.words.iter().cloned()),
        );
        commands.push(Command::new("clear-history").args(["-t", target]));
        commands
    }

    fn window_options(&self, target: &str, count: Count) -> Vec<Command> {
        let set = |flags: &str, name: &str, value: &str| {
            Command::new("set-option").args([flags, "-t", target, name, value])
        };
        let command = self.launch.command.shown();
        let command = crate::model::text::one_line(command.as_bytes(), 4096);
        vec![
            set("-w", "remain-on-exit", "on"),
            set("-w", "monitor-bell", "on"),
            set("-w", "automatic-rename", "off"),
            set("-w", "allow-rename", "off"),
            set("-w", "@tmux_task_command", &command),
            set("-w", "@tmux_task_cwd", self.cwd),
            set("-w", "@tmux_task_started", &self.launch.started.to_string()),
            set("-w", MARK, &self.mark),
            match &self.launch.owner {
                Some(owner) => set("-w", OWNER, owner),
                None => Command::new("set-option").args(["-wu", "-t", target, OWNER]),
            },
            match count {
                Count::First => set("-w", "@tmux_task_run", "1"),
                // A window that never was counted had its first run.
                Count::Next => set(
                    "-wF",
                    "@tmux_task_run",
                    "#{e|+:#{?@tmux_task_run,#{@tmux_task_run},1},1}",
                ),
            },
        ]
    }
}

enum Count {
    First,
    Next,
}

fn is_directory(path: &Path) -> bool {
    path.is_absolute() && path.is_dir()
}

/// Returns a number that no other launch of this process has.
fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    nanos.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// One window of a listing.
#[derive(Debug)]
struct Row<'a> {
    slot: Slot,
    named: &'a str,
    mark: &'a str,
}

/// Reads the listing, one row a window: that of its pane of the lowest id.
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
    let mut fields = line.splitn(11, ' ');
    let life = SessionLife {
        server_pid: fields.next()?.parse().ok()?,
        server_started: fields.next()?.parse().ok()?,
        id: fields.next()?.parse().ok()?,
        created: fields.next()?.parse().ok()?,
    };
    let window = fields.next()?.parse().ok()?;
    let pane = fields.next()?.parse().ok()?;
    let is_dead = fields.next()? == "1";
    let is_task = fields.next()? == "1";
    let named = fields.next()?.strip_prefix('+')?;
    let run = fields.next()?.parse().unwrap_or(1);
    let mark = fields.next()?;
    let slot = Slot {
        life,
        window,
        pane,
        run,
        is_dead,
        is_task,
    };
    Some(Row { slot, named, mark })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["a", "9", "api-server", "A.b_c-9", &"x".repeat(40)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            ".a",
            "-a",
            "_a",
            "a b",
            "a:b",
            "é",
            "a\n",
            "a#{q}",
            &"x".repeat(41),
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert_eq!(
            check_name("a b").unwrap_err().to_string(),
            "`a b` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit"
        );
    }

    #[test]
    fn the_lowest_pane_is_the_slot() {
        let rows = read_rows(
            "1 2 $0 3 @1 %7 0 0 +@1+@4+ 3 m\n1 2 $0 3 @1 %2 1 1 +@1+@4+ 3 m\n\
             1 2 $0 3 @4 %5 0 0 +@1+@4+  \nrubbish",
        );
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.slot.window.0, row.slot.pane.0, row.slot.run, row.mark))
            .collect();
        assert_eq!(told, [(1, 2, 3, "m"), (4, 5, 1, "")]);
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.slot.is_dead, row.slot.is_task, row.named))
            .collect();
        assert_eq!(told, [(true, true, "@1+@4+"), (false, false, "@1+@4+")]);
    }
}
