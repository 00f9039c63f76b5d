//! Starting a task, or running it again, in its slot.
//!
//! tmux is the lock: each step is one line of commands, which the server runs without anything
//! in between. A step that finds the world changed since the question starts over.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::client::Connection;
use super::error::TmuxError;
use super::respawn::{continue_for, list_control_clients, pause_for, read_control_clients};
use super::script::CommandWords;
use super::server::Server;
use super::task_environment::{EnvironmentFile, TaskEnvironment};
use crate::model::{Millis, PaneId, SessionId, WindowId};
use crate::protocol::{Command, control_line, literal_format};

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
    /// The project's absolute path, for a session that has to be made.
    pub root: Option<PathBuf>,
    /// When the launch was asked for.
    pub started: Millis,
}

/// What was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// The session.
    pub session: SessionId,
    /// The task.
    pub window: WindowId,
    /// Its primary pane.
    pub pane: PaneId,
    /// Which run of the task it is, from 1.
    pub run: u32,
    /// Whether the window was made for it.
    pub created: bool,
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
    /// The directory is not there, or has a name that tmux cannot carry.
    #[error("`{}` is not a directory to run in", .0.display())]
    Directory(PathBuf),
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
    /// Others kept changing the session.
    #[error("the session changed under every one of {ATTEMPTS} attempts")]
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
                Err(error) if error.is_missing() && attempt < START_ATTEMPTS => {
                    no_server = Some(error);
                    tokio::time::sleep(PAUSE).await;
                    None
                }
                done => done?,
            },
            Found::Windows {
                slots,
                control_clients,
            } => match slots.as_slice() {
                [] => plan.create_window(connection).await?,
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
        slots: Vec<Slot>,
        /// The names of the server's control clients.
        control_clients: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    session: SessionId,
    window: WindowId,
    pane: PaneId,
    run: u32,
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
        let cwd = launch.cwd.to_str().filter(|_| is_directory(&launch.cwd));
        let cwd = cwd.ok_or_else(|| LaunchError::Directory(launch.cwd.clone()))?;
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
        let words = launch.command.pane_words(&names, &launch.environment, path);
        Ok(Self {
            launch,
            cwd,
            session: format!("={session}"),
            mark,
            words,
            file,
        })
    }

    /// Lists the panes of all windows of the name; the first of a window is its primary one.
    fn list_command(&self) -> Command {
        // Without the colon tmux goes on to look for a window of that name.
        Command::new("list-panes")
            .args(["-s", "-t", &format!("{}:", self.session)])
            .args([
                "-f",
                &format!("#{{==:#{{window_name}},{}}}", self.launch.name),
            ])
            .args([
                "-F",
                "#{session_id} #{window_id} #{pane_id} #{@tmux_task_run} #{@tmux_task_launch}",
            ])
    }

    async fn find(&self, connection: &mut Connection<'_>) -> Result<Found, TmuxError> {
        let ask = [list_control_clients(), self.list_command()];
        match connection.run(&ask).await {
            Err(error) if error.is_missing() => Ok(Found::NoSession),
            answer => {
                let frames = answer?;
                let text = frames.last().map(crate::protocol::Frame::text);
                let slots = read_slots(&text.unwrap_or_default());
                Ok(Found::Windows {
                    slots: slots.into_iter().map(|(slot, _)| slot).collect(),
                    control_clients: frames.first().map(read_control_clients).unwrap_or_default(),
                })
            }
        }
    }

    /// Makes the session with the task as its only window; `None` when somebody was faster.
    async fn create_session(&self, server: &Server) -> Result<Option<Launched>, TmuxError> {
        server.create_socket_folder()?;
        let pane_target = format!("{}:", self.session);
        let on_session = |name: &str, value: &str| {
            Command::new("set-option").args(["-t", &pane_target, name, value])
        };
        // The length of a history is fixed when its pane is made, so the session's own option has
        // to be there before: the first window is a placeholder that makes room for the task's.
        let mut commands = vec![
            Command::new("new-session")
                .args(["-d", "-s", &literal_format(&self.launch.session)])
                .args(["-n", "tmux-task"])
                .args(["-c", &literal_format(self.cwd), "--", "true", ""]),
            on_session("history-limit", HISTORY_LIMIT),
            on_session("destroy-unattached", "off"),
            on_session("bell-action", "any"),
        ];
        if let Some(root) = self.launch.root.as_deref().and_then(Path::to_str) {
            commands.push(on_session("@tmux_task_root", root));
        }
        let mut place = self.new_window();
        place = place.args(["-k", "-t", &format!("{pane_target}^")]);
        commands.push(self.with_process(place));
        commands.extend(self.window_options(&format!("{pane_target}^"), Count::First));
        commands.push(self.list_command());
        match (Connection::OneShot(server)).run_unseen(&commands).await {
            Err(TmuxError::Rejected { command, reply })
                if command == "new-session" && reply.starts_with("duplicate session") =>
            {
                Ok(None)
            }
            answer => Ok(self.created(&answer?)),
        }
    }

    /// Makes the window unless one of that name is there by then.
    async fn create_window(
        &self,
        connection: &mut Connection<'_>,
    ) -> Result<Option<Launched>, TmuxError> {
        let pane_target = format!("{}:", self.session);
        let end = format!("{pane_target}{{end}}");
        let mut make = vec![
            Command::new("set-option").args(["-t", &pane_target, "history-limit", HISTORY_LIMIT]),
            self.with_process(self.new_window().args(["-a", "-t", &end])),
        ];
        make.extend(self.window_options(&end, Count::First));
        let is_there = format!(
            "#{{W:#{{?#{{==:#{{window_name}},{}}},1,}}}}",
            self.launch.name
        );
        let commands = [
            // Another session must not stand in for one that has gone.
            Command::new("has-session").args(["-t", &self.session]),
            Command::new("if-shell")
                .args(["-F", "-t", &pane_target, &is_there, ""])
                .arg(control_line(&make)),
            self.list_command(),
        ];
        match connection.run_unseen(&commands).await {
            Err(error) if error.is_missing() => Ok(None),
            answer => Ok(self.created(&answer?)),
        }
    }

    /// Reads from the last frame whether this launch made the window.
    fn created(&self, frames: &[crate::protocol::Frame]) -> Option<Launched> {
        let text = frames.last()?.text();
        let (slot, _) = read_slots(&text)
            .into_iter()
            .find(|(_, mark)| *mark == self.mark)?;
        Some(Launched {
            session: slot.session,
            window: slot.window,
            pane: slot.pane,
            run: 1,
            created: true,
        })
    }

    /// Runs the task again in its window; `None` when the window or one of the control clients has
    /// gone.
    async fn run_again(
        &self,
        connection: &mut Connection<'_>,
        slot: &Slot,
        control_clients: &[String],
    ) -> Result<Option<Launched>, TmuxError> {
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
        commands.extend(self.window_options(&pane, Count::Next));
        let respawn = Command::new("respawn-pane").args(["-k", "-t", &pane]);
        commands.push(self.with_process(respawn));
        commands.extend(continue_for(control_clients, slot.pane));
        commands.push(Command::new("clear-history").args(["-t", &pane]));
        commands.push(self.list_command());
        let frames = match connection.run_unseen(&commands).await {
            Err(TmuxError::Rejected { reply, .. }) if reply.starts_with("can't find") => {
                return Ok(None);
            }
            answer => answer?,
        };
        let text = frames.last().map(crate::protocol::Frame::text);
        let slots = read_slots(&text.unwrap_or_default());
        let after = slots
            .into_iter()
            .find(|(after, _)| after.window == slot.window);
        Ok(Some(Launched {
            session: slot.session,
            window: slot.window,
            pane: slot.pane,
            // A window renamed within the line is not listed; its count is one more all the same.
            run: after.map_or(slot.run.saturating_add(1), |(after, _)| after.run),
            created: false,
        }))
    }

    fn new_window(&self) -> Command {
        Command::new("new-window").args(["-d", "-n", &self.launch.name])
    }

    fn with_process(&self, command: Command) -> Command {
        command
            .args(["-c", &literal_format(self.cwd), "--"])
            .args(self.words.iter().cloned())
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

/// Reads the listing, one slot a window with its pane of the lowest id, and the launch's mark.
fn read_slots(text: &str) -> Vec<(Slot, String)> {
    let mut slots: Vec<(Slot, String)> = Vec::new();
    for line in text.lines() {
        let Some((slot, mark)) = read_slot(line) else {
            continue;
        };
        match slots
            .iter_mut()
            .find(|(known, _)| known.window == slot.window)
        {
            Some((known, _)) => known.pane = known.pane.min(slot.pane),
            None => slots.push((slot, mark)),
        }
    }
    slots
}

fn read_slot(line: &str) -> Option<(Slot, String)> {
    let mut fields = line.splitn(5, ' ');
    let slot = Slot {
        session: fields.next()?.parse().ok()?,
        window: fields.next()?.parse().ok()?,
        pane: fields.next()?.parse().ok()?,
        run: fields.next()?.parse().unwrap_or(1),
    };
    Some((slot, fields.next()?.to_owned()))
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
        let slots = read_slots("$0 @1 %7 3 m\n$0 @1 %2 3 m\n$0 @4 %5  \nrubbish");
        let told: Vec<_> = slots
            .iter()
            .map(|(s, m)| (s.window.0, s.pane.0, s.run, m.as_str()))
            .collect();
        assert_eq!(told, [(1, 2, 3, "m"), (4, 5, 1, "")]);
    }
}
