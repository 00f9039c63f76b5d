//! Notifications that attached terminals show by themselves.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::support::{World, argv};

/// A terminal in which a client of tmux is attached to the session `home`, and what it was sent.
struct Terminal<'a> {
    world: &'a World,
    /// Its name in tmux.
    client: String,
    record: PathBuf,
}

impl<'a> Terminal<'a> {
    fn start(world: &'a World, name: &str, term: &str) -> Self {
        let socket = world.server_socket();
        let attach = format!("env -u TMUX TERM={term} tmux -u -S '{socket}' attach -t =home");
        let record = world.path(name);
        // Everything that it is sent is recorded from the beginning on.
        let pane = "sh -c 'read -r _'";
        let ends = ["-L", "terminal", "new-session", "-d", "-s", name, pane];
        world.tmux(ends);
        let target = format!("={name}:");
        let cat = format!("cat >'{}'", record.display());
        let on = |words: &[&str]| world.tmux([&["-L", "terminal"], words].concat());
        on(&["pipe-pane", "-t", &target, &cat]);
        let old = Self::clients(world);
        on(&["respawn-pane", "-k", "-t", &target, &attach]);
        let new = || {
            let mut clients = Self::clients(world).into_iter();
            clients.find(|client| !old.contains(client))
        };
        world.until_true("a terminal is attached", || new().is_some());
        Self {
            world,
            client: new().unwrap(),
            record,
        }
    }

    fn clients(world: &World) -> Vec<String> {
        let format = "#{?client_control_mode,,#{client_name}}";
        let clients = world.tmux(["list-clients", "-F", format]);
        let names = clients.lines().filter(|line| !line.is_empty());
        names.map(str::to_owned).collect()
    }

    fn shows(&self, session: &str) {
        self.world
            .tmux(["switch-client", "-c", &self.client, "-t", session]);
    }

    /// The notifications so far, without their ends.
    fn told(&self) -> Vec<String> {
        let record = fs::read(&self.record).unwrap_or_default();
        let record = String::from_utf8_lossy(&record).into_owned();
        let begin = |sequence: &&str| sequence.starts_with("9;") || sequence.starts_with("777;");
        let sequences = record.split("\x1b]").skip(1).filter(begin);
        let whole = sequences.filter_map(|sequence| sequence.split_once('\x07'));
        whole.map(|(sequence, _)| sequence.to_owned()).collect()
    }

    #[track_caller]
    fn is_told(&self, expected: &[&str]) {
        self.world
            .until_true(&format!("{expected:?}, told {:?}", self.told()), || {
                self.told() == expected
            });
    }
}

#[test]
fn each_attached_terminal_is_told_once_except_of_what_it_shows() {
    let world = World::new();
    world.configure("notices = ['terminal']\n");
    world.tmux(argv("new-session -d -s home cat"));
    let first = Terminal::start(&world, "first", "xterm-256color");
    let second = Terminal::start(&world, "second", "rxvt");
    let mut control = world.command("tmux");
    control.args(["-C", "attach", "-t", "=home"]);
    control.stdin(Stdio::piped()).stdout(Stdio::piped());
    let control = control.spawn().unwrap();

    let gates = ["hostile", "shown", "last"].map(|name| {
        let gate = world.gate(name);
        let says = r"printf 'a;\033]0;owned\007b\302\234c\n'";
        world.run(name, &format!("{gate}; {says}; exit 3"));
        gate
    });
    let [hostile, shown, last] = gates;
    hostile.open();
    let of_first = |name: &str| format!("9;tmux-task: {name} failed with code 3");
    let of_second = |name: &str| {
        format!("777;notify;{name} failed with code 3;a,bc - See: tmux-task logs {name} -s work")
    };
    first.is_told(&[&of_first("hostile")]);
    second.is_told(&[&of_second("hostile")]);
    first.shows("=work:shown");
    shown.open();
    second.is_told(&[&of_second("hostile"), &of_second("shown")]);
    last.open();
    let all = ["hostile", "shown", "last"].map(of_second);
    second.is_told(&all.each_ref().map(String::as_str));
    first.is_told(&[&of_first("hostile"), &of_first("last")]);

    world.tmux(["detach-client", "-s", "=home"]);
    let control = control.wait_with_output().unwrap();
    let control = String::from_utf8_lossy(&control.stdout);
    assert!(
        control.contains("%exit") && !control.contains("\x1b]"),
        "{control}"
    );
    world.tmux(["-L", "terminal", "kill-server"]);
}
