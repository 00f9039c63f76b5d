//! The same output in a real tmux and here gives the same screen.
//!
//! `TERMINAL_SEEDS=1000` tries more mixes than usual. A handful then differ where tmux's own
//! bookkeeping breaks: a wide character with wrapping off in a pane of two columns, or half
//! overwritten in the first column.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::*;

const DONE: &str = "all-was-read";

/// A private tmux server without any user configuration.
struct PrivateServer {
    dir: tempfile::TempDir,
}

impl PrivateServer {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("it-").tempdir();
        Self { dir: dir.unwrap() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn tmux(&self, words: &[&str]) -> Output {
        Command::new("tmux")
            .args(["-u", "-f", "/dev/null", "-L", "it"])
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TMUX_TMPDIR", self.path())
            .env("LC_ALL", "C.UTF-8")
            .env("SHELL", "/bin/sh")
            .output()
            .expect("these tests need tmux")
    }

    fn asks(&self, words: &[&str]) -> String {
        let output = self.tmux(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts a pane that prints `bytes` and then sets its title.
    fn print(&self, name: &str, width: usize, height: usize, bytes: &[u8]) {
        let file = self.path().join(name);
        let done = format!("\x1b]2;{DONE}\x1b\\");
        std::fs::write(&file, [bytes, done.as_bytes()].concat()).unwrap();
        let command = format!("stty raw -echo; cat {}; sleep 1000", file.display());
        let (width, height) = (width.to_string(), height.to_string());
        let start = ["new-session", "-d", "-s", name, "-x", &width, "-y", &height];
        self.asks(&[&start[..], &[&command]].concat());
    }

    /// What the pane shows: rows, cursor, number of rows in the history.
    fn shown(&self, name: &str) -> PaneState {
        let target = format!("={name}:");
        let deadline = Instant::now() + Duration::from_secs(20);
        while self
            .asks(&["display-message", "-p", "-t", &target, "#{pane_title}"])
            .trim_end()
            != DONE
        {
            assert!(Instant::now() < deadline, "{name} was not read");
        }
        let format = "#{cursor_x} #{cursor_y} #{history_size} #{alternate_on}";
        let numbers = self.asks(&["display-message", "-p", "-t", &target, format]);
        let numbers: Vec<usize> = numbers
            .split_whitespace()
            .map(|n| n.parse().unwrap())
            .collect();
        let rows = self.asks(&["capture-pane", "-p", "-t", &target]);
        PaneState {
            rows: rows.lines().map(str::to_owned).collect(),
            cursor: (numbers[0], numbers[1]),
            scrolled: numbers[2] as u64,
            alternate: numbers[3] == 1,
        }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

impl PaneState {
    /// Whether `here` shows the same. Newer versions of tmux show a tab as one, whatever its width.
    fn is_shown_by(&self, here: &Self) -> bool {
        let rows = self.rows.iter().zip(&here.rows);
        self.rows.len() == here.rows.len()
            && rows
                .into_iter()
                .all(|(there, here)| is_same_row(there, here))
            && (self.cursor, self.scrolled, self.alternate)
                == (here.cursor, here.scrolled, here.alternate)
    }
}

/// Whether the rows are the same, with one blank or more for each tab.
fn is_same_row(there: &str, here: &str) -> bool {
    let Some((text, rest)) = there.split_once('\t') else {
        return there == here;
    };
    let Some(blanks) = here.strip_prefix(text) else {
        return rest.trim().is_empty() && text.trim_end() == here.trim_end();
    };
    let longest = blanks.len() - blanks.trim_start_matches(' ').len();
    (1..=longest).any(|blank| is_same_row(rest, &blanks[blank..]))
        || (rest.trim().is_empty() && blanks.trim().is_empty())
}

#[derive(Debug, PartialEq, Eq)]
struct PaneState {
    rows: Vec<String>,
    cursor: (usize, usize),
    scrolled: u64,
    alternate: bool,
}

fn shown_here(width: usize, height: usize, bytes: &[u8]) -> PaneState {
    let mut terminal = Terminal::new(width, height);
    terminal.write(bytes, 1, &mut |_| {});
    PaneState {
        rows: terminal.rows(),
        cursor: terminal.cursor(),
        scrolled: terminal.scrolled(),
        alternate: terminal.is_alternate(),
    }
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// A mix of sequences that are emulated as in tmux.
fn mix(dice: &mut Dice, width: u64, height: u64) -> String {
    let mut bytes = String::new();
    for _ in 0..150 {
        let column = dice.below(width + 2);
        let row = dice.below(height + 2);
        let few = dice.below(5);
        bytes += &match dice.below(34) {
            0..=7 => {
                let length = dice.below(width + 3);
                (0..length)
                    .map(|_| dice.pick(&["a", "b", "c", "x", "y", "z", " "]))
                    .collect()
            }
            8 => dice.pick(&["日", "本語", "é", "e\u{301}", "🎉"]).to_owned(),
            9..=12 => dice
                .pick(&["\r\n", "\n", "\r", "\t", "\x08", "\x0b", "\x08\x08"])
                .to_owned(),
            13..=15 => format!("\x1b[{row};{column}H"),
            16 => format!("\x1b[{few}{}", dice.pick(&["A", "B", "C", "D", "E", "F"])),
            17 => format!("\x1b[{column}{}", dice.pick(&["G", "`"])),
            18 => format!("\x1b[{row}d"),
            19 => format!("\x1b[{}J", dice.below(3)),
            20 => format!("\x1b[{}K", dice.below(3)),
            21 => format!("\x1b[{few}X"),
            22 => format!("\x1b[{few}@"),
            23 => format!("\x1b[{few}P"),
            24 => format!("\x1b[{few}{}", dice.pick(&["L", "M"])),
            25 => format!("\x1b[{few}{}", dice.pick(&["S", "T"])),
            26 => format!("\x1b[{row};{}r", dice.below(height) + 1),
            27 => dice.pick(&["\x1bM", "\x1bD", "\x1bE"]).to_owned(),
            28 => dice
                .pick(&["\x1b7", "\x1b8", "\x1b[s", "\x1b[u"])
                .to_owned(),
            29 => dice
                .pick(&[
                    "\x1b[?6h", "\x1b[?6l", "\x1b[?7h", "\x1b[?7l", "\x1b[4h", "\x1b[4l",
                ])
                .to_owned(),
            30 => dice
                .pick(&["\x1b[?1049h", "\x1b[?1049l", "\x1b[?47h", "\x1b[?1047l"])
                .to_owned(),
            31 => format!("q\x1b[{few}b"),
            32 => dice
                .pick(&["\x1bH", "\x1b[g", "\x1b[Z", "\x1b[2Z", "\x1b[r", "\x1b[m"])
                .to_owned(),
            _ => dice
                .pick(&[
                    "\x1b[31m",
                    "\x1b]0;t\x07",
                    "\x1bkt\x1b\\",
                    "\x1bPq1\x1b\\",
                    "\x1b(0qx\x1b(B",
                    "\x1b)0\x0elk\x0f",
                    "\x1bc",
                ])
                .to_owned(),
        };
    }
    bytes
}

#[test]
fn random_mixes_show_what_tmux_shows() {
    let seeds = std::env::var("TERMINAL_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok());
    let seeds: u64 = seeds.unwrap_or(40);
    let private = PrivateServer::new();
    let mut cases = Vec::new();
    for seed in 0..seeds {
        let mut dice = Dice(seed);
        let (width, height) = (2 + dice.below(20), 1 + dice.below(8));
        let bytes = mix(&mut dice, width, height);
        let (width, height) = (width as usize, height as usize);
        let name = format!("seed{seed}");
        private.print(&name, width, height, bytes.as_bytes());
        cases.push((name, width, height, bytes));
    }
    let mut different = 0;
    for (name, width, height, bytes) in cases {
        let there = private.shown(&name);
        let here = shown_here(width, height, bytes.as_bytes());
        if !there.is_shown_by(&here) {
            different += 1;
            eprintln!("{name}: {width}x{height}\n{bytes:?}\ntmux {there:?}\nhere {here:?}\n");
        }
    }
    assert_eq!(different, 0);
}
