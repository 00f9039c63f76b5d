//! `panel`, in a real terminal: a pane of another tmux server.

use rustix::process::{Signal, kill_process};

use crate::support::{World, argv, event, pid};

/// A terminal of another server, which goes with the world.
struct Terminal<'a>(&'a World);

impl<'a> Terminal<'a> {
    /// Runs the panel in it. When it ends, the terminal shows its exit code.
    fn panel(world: &'a World, options: &str) -> Self {
        let program = World::program().display();
        let panel = format!("'{program}' panel {options}; echo code-$?; exec cat");
        world.open_terminal("80x24", &panel);
        Self(world)
    }

    fn tmux(&self, line: &str) -> String {
        self.0.tmux(argv(&format!("-L terminal {line}")))
    }

    fn screen(&self) -> String {
        self.tmux("capture-pane -p")
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        let what = format!("the terminal shows {text}:\n{}", self.screen());
        self.0.until_true(&what, || self.screen().contains(text));
    }

    #[track_caller]
    fn loses(&self, text: &str) {
        self.0.until_true(text, || !self.screen().contains(text));
    }

    fn keys(&self, keys: &str) {
        self.tmux(&format!("send-keys {keys}"));
    }

    /// Presses these keys, and waits until the terminal shows this.
    #[track_caller]
    fn press(&self, keys: &str, then: &str) {
        self.keys(keys);
        self.shows(then);
    }

    /// Waits until the list has rows of these groups, in this order: the first words of its rows, except
    /// for the selected row's mark.
    #[track_caller]
    fn lists(&self, groups: &[&str]) {
        self.0.until_true(&format!("{groups:?}"), || {
            let screen = self.screen();
            let rows = screen
                .lines()
                .map(|row| row.strip_prefix('>').unwrap_or(row));
            let words = rows.filter_map(|row| row.split_whitespace().next());
            let mut found: Vec<&str> = words.collect();
            found.retain(|word| ["ASK", "FAILED", "RUNNING", "DONE"].contains(word));
            found == groups
        });
    }

    /// Shows only the tasks of this name.
    #[track_caller]
    fn filter(&self, name: &str) {
        self.keys("/");
        self.keys(&format!("-l {name}"));
        self.lists(&["RUNNING"]);
        self.keys("Enter");
    }

    fn is_full_screen(&self) -> bool {
        self.tmux("display-message -p #{alternate_on}") == "1"
    }

    /// Leaves the panel.
    #[track_caller]
    fn quit(&self) {
        self.press("q", "code-0");
        assert!(!self.is_full_screen());
    }
}

const DEPLOY: &str = "printf 'Proceed? [y/N] '; read -r word; echo got-$word; exec sleep 1000";

#[test]
fn a_prompt_is_answered_and_a_task_is_killed() {
    let world = World::new();
    world.run("deploy", DEPLOY);
    world.run("build", "echo compiling; exit 3");
    world.run("server", "exec sleep 1000");
    world.run("lint", "echo clean");
    world.until_delivered("exited", "build");
    world.until_delivered("exited", "lint");
    world.until_delivered("input", "deploy");
    let terminal = Terminal::panel(&world, "");
    terminal.lists(&["ASK", "FAILED", "RUNNING", "DONE"]);
    terminal.shows("exit 3: compiling");
    terminal.press("a", "deploy asks: Proceed? [y/N]");
    terminal.press("y Enter", "sent to deploy");
    terminal.shows("got-y");
    terminal.lists(&["FAILED", "RUNNING", "RUNNING", "DONE"]);

    terminal.filter("server");
    terminal.press("x", "Kill server and remove its window? y/n");
    terminal.press("y", "killed server");
    let records = world.until_delivered("disappeared", "server");
    let gone = event(&records, "disappeared", "server");
    assert_eq!(gone["reason"], "userKilled");

    terminal.keys("Escape");
    terminal.lists(&["FAILED", "RUNNING", "DONE"]);
    terminal.tmux("resize-window -x 40 -y 10");
    terminal.shows("FAIL build");
    terminal.quit();
}

#[test]
fn enter_shows_the_window_until_the_user_detaches() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.run("web", "exec sleep 1000");
    let terminal = Terminal::panel(&world, "");
    terminal.shows("RUNNING web");
    terminal.keys("j Enter");
    world.until_true("the terminal shows web", || {
        world.on_terminals() == ["work web"]
    });
    terminal.press("C-b d", "RUNNING web");
    assert_eq!(world.on_terminals(), [""; 0]);
    terminal.quit();
}

/// Opens a popup by its key, in a terminal that shows the session `home`. The panel runs with these
/// variables besides those of the server.
#[track_caller]
fn open_popup<'a>(world: &'a World, variables: &str) -> Terminal<'a> {
    world.tmux(argv("new-session -d -s home -n desk cat"));
    let file = world.path("home").join(".tmux.conf");
    // The line of the documentation. The test's session is not named after its folder, and the program is
    // not on the server's PATH.
    let documentation = include_str!("../../docs/panel.md");
    let mut lines = documentation.lines();
    let binding = lines.find(|line| line.starts_with("bind-key")).unwrap();
    let program = World::program().display();
    let panel = format!("{variables} '{program}' -s work panel\"");
    std::fs::write(&file, binding.replace("tmux-task panel\"", &panel)).unwrap();
    world.tmux(["source-file", &file.display().to_string()]);
    world.attach_terminal("80x24", "home");
    let terminal = Terminal(world);
    world.until_true("the terminal shows home", || {
        world.on_terminals() == ["home desk"]
    });
    terminal.keys("C-b T");
    terminal
}

#[test]
fn enter_in_a_popup_switches_the_users_terminal_and_closes_the_popup() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    // The server does not have the folders of the world in its environment.
    let folders = format!(
        "TMUX_TASK_STATE_DIR='{}' TMUX_TASK_RUNTIME_DIR='{}'",
        world.path("state").display(),
        world.path("run").display()
    );
    let terminal = open_popup(&world, &folders);
    terminal.shows("RUNNING api");
    terminal.keys("Enter");
    world.until_true("the terminal shows api", || {
        world.on_terminals() == ["work api"]
    });
    terminal.loses("RUNNING api");
}

#[test]
fn a_popup_stays_open_with_the_error_of_a_panel_that_has_other_folders() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let terminal = open_popup(&world, "");
    terminal.shows("panel: the daemon did not start: another daemon");
    terminal.keys("Escape");
    terminal.loses("another daemon");
}

#[test]
fn it_starts_the_daemon_and_r_runs_a_task_again() {
    let world = World::new();
    world.run("count", "echo run >>runs; wc -l <runs; exit 1");
    world.run("server", "exec sleep 1000");
    world.task(["daemon", "stop"]).ok();
    let terminal = Terminal::panel(&world, "");
    terminal.shows("exit 1: 1");
    terminal.press("r", "exit 1: 2");
    terminal.press("G r", "server still runs. End it and run it again? y/n");
    terminal.press("y", "RUNNING server   2");
    // What no launcher has recorded cannot be run again.
    world.new_window("bare", "exec sleep 1000");
    terminal.shows("RUNNING bare");
    terminal.press("G r y", "the command of task `bare` is not recorded");
}

#[test]
fn it_says_that_the_daemon_is_gone_and_comes_back() {
    let mut world = World::new();
    world.run("api", "exec sleep 1000");
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    let terminal = Terminal::panel(&world, "");
    terminal.shows("RUNNING api");
    world.kill_daemon();
    terminal.shows("no daemon runs for session `work`");
    // What was known stays.
    terminal.shows("RUNNING api");
    world.daemon();
    world.run("web", "exec sleep 1000");
    terminal.shows("RUNNING web");
    terminal.shows("LAST LINE");
    // The session goes, and another one of its name comes.
    world.task(["kill-all", "--yes"]).ok();
    terminal.shows("There is no session `work`.");
    world.run("later", "exec sleep 1000");
    terminal.shows("RUNNING later");
}

#[test]
fn all_sessions_are_shown_and_each_key_is_for_the_right_one() {
    let world = World::new();
    world.run_alone("idle", "job", "exec sleep 1000");
    world.run_in("shop", "deploy", DEPLOY);
    let on_other = |line: &str| world.call(&format!("-L other -s work {line}"));
    // Both sessions have this name and this window id.
    world.run("api", "exec sleep 1000");
    on_other("run watch -- 'exec sleep 1000'").ok();
    let terminal = Terminal::panel(&world, "--all");
    terminal.shows("4 sessions  1 needs you · 2 running");
    terminal.shows("RUNNING work       api");
    terminal.shows("RUNNING work@other watch");
    let idle = "idle       no daemon runs; `tmux-task -s idle daemon";
    terminal.shows(idle);
    terminal.press("a", "shop/deploy asks: Proceed? [y/N]");
    terminal.press("y Enter", "got-y");
    terminal.filter("watch");
    terminal.press("x", "Kill work@other/watch and remove its window? y/n");
    terminal.press("y", "killed work@other/watch");
    assert_eq!(on_other("ls").code, 3, "its only window is gone");
    // The one of the same id is not.
    assert_eq!(world.names(), ["api"]);
    world.task(["-s", "idle", "daemon", "status"]).fails(
        3,
        "tmux-task: daemon status: no daemon runs for session `idle`\n\
         hint: start one with `tmux-task -s idle daemon --detach`",
    );
    terminal.press("Escape", "3 sessions  2 running");
    terminal.quit();
}

#[test]
fn sessions_that_begin_and_end_are_followed() {
    let world = World::new();
    let terminal = Terminal::panel(&world, "--all");
    terminal.shows("There are no task sessions.");
    world.run("api", "exec sleep 1000");
    terminal.shows("RUNNING work    api");
    world.run_in("shop", "web", "exec sleep 1000");
    terminal.shows("RUNNING shop    web");
    terminal.shows("2 sessions  2 running");
    // A daemon that is stopped leaves its session, and is not started again.
    world.task(["daemon", "stop"]).ok();
    terminal.shows("work    no daemon runs;");
    world.daemon();
    terminal.shows("RUNNING work    api");
    // One that is killed and started again leaves no trace.
    world.kill_daemon();
    world.daemon();
    world.run("later", "exec sleep 1000");
    terminal.shows("RUNNING work    later");
    world.task(["kill-all", "--yes"]).ok();
    terminal.shows("1 session  1 running");
    terminal.loses("work");
    terminal.lists(&["RUNNING"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_restores_the_terminal() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let terminal = Terminal::panel(&world, "");
    terminal.shows("RUNNING api");
    assert!(terminal.is_full_screen());
    let shell = terminal.tmux("display-message -p #{pane_pid}");
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
    let panel = children.unwrap();
    kill_process(pid(panel.trim().parse().unwrap()), Signal::TERM).unwrap();
    terminal.shows("code-143");
    assert!(!terminal.is_full_screen());
}

#[test]
fn without_a_terminal_it_says_so() {
    let world = World::new();
    world.task(["panel"]).fails(
        1,
        "tmux-task: panel: this is not a terminal\nhint: `tmux-task ls` prints the tasks",
    );
}
