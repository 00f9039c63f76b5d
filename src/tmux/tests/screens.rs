//! The same output in a real tmux and in our terminal gives the same screen.
//!
//! `TERMINAL_SEEDS=1000` tries more mixes than usual. A handful then differ where tmux's own
//! bookkeeping breaks: a wide character with wrapping off in a pane of two columns, or half
//! overwritten in the first column.

use super::*;
use crate::rules::terminal::Terminal;

const DONE: &str = "all-was-read";

/// Starts a session of this name with a pane that prints `bytes` and then sets its title.
fn print(private: &Private, name: &str, width: usize, height: usize, bytes: &str) {
    let file = private.dir.path().join(name);
    std::fs::write(&file, format!("{bytes}\x1b]2;{DONE}\x1b\\")).unwrap();
    let command = format!("stty raw -echo; cat {}; sleep 1000", file.display());
    let (width, height) = (width.to_string(), height.to_string());
    let start = ["new-session", "-d", "-s", name, "-x", &width, "-y", &height];
    private.asks(&[&start[..], &[&command]].concat());
}

/// What the pane shows: rows, cursor, number of rows in the history.
async fn shown(private: &Private, name: &str) -> PaneState {
    let target = format!("={name}:");
    until(async || {
        let title = private.shows(&target, "#{pane_title}");
        (title == DONE).then_some(()).ok_or(title)
    })
    .await;
    let format = "#{cursor_x} #{cursor_y} #{history_size} #{alternate_on}";
    let numbers = private.shows(&target, format);
    let numbers = numbers.split_whitespace().map(|n| n.parse().unwrap());
    let numbers: Vec<usize> = numbers.collect();
    let rows = private.tmux(&["capture-pane", "-p", "-t", &target]).stdout;
    PaneState {
        rows: String::from_utf8(rows)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect(),
        cursor: (numbers[0], numbers[1]),
        scrolled: numbers[2] as u64,
        alternate: numbers[3] == 1,
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

/// Sequences that are emulated as in tmux, each kind as often as it is here. `{r}` and `{c}` are a row and
/// a column, also one that is not there, `{n}` is a small number and `{h}` a row that is there.
const SEQUENCES: [&[&str]; 26] = [
    &["日", "本語", "é", "e\u{301}", "🎉"],
    LINE_ENDS,
    LINE_ENDS,
    LINE_ENDS,
    LINE_ENDS,
    PLACES,
    PLACES,
    PLACES,
    &[
        "\x1b[{n}A",
        "\x1b[{n}B",
        "\x1b[{n}C",
        "\x1b[{n}D",
        "\x1b[{n}E",
        "\x1b[{n}F",
    ],
    &["\x1b[{c}G", "\x1b[{c}`"],
    &["\x1b[{r}d"],
    &["\x1b[0J", "\x1b[1J", "\x1b[2J"],
    &["\x1b[0K", "\x1b[1K", "\x1b[2K"],
    &["\x1b[{n}X"],
    &["\x1b[{n}@"],
    &["\x1b[{n}P"],
    &["\x1b[{n}L", "\x1b[{n}M"],
    &["\x1b[{n}S", "\x1b[{n}T"],
    &["\x1b[{r};{h}r"],
    &["\x1bM", "\x1bD", "\x1bE"],
    &["\x1b7", "\x1b8", "\x1b[s", "\x1b[u"],
    &[
        "\x1b[?6h", "\x1b[?6l", "\x1b[?7h", "\x1b[?7l", "\x1b[4h", "\x1b[4l",
    ],
    &["\x1b[?1049h", "\x1b[?1049l", "\x1b[?47h", "\x1b[?1047l"],
    &["q\x1b[{n}b"],
    &["\x1bH", "\x1b[g", "\x1b[Z", "\x1b[2Z", "\x1b[r", "\x1b[m"],
    &[
        "\x1b[31m",
        "\x1b]0;t\x07",
        "\x1bkt\x1b\\",
        "\x1bPq1\x1b\\",
        "\x1b(0qx\x1b(B",
        "\x1b)0\x0elk\x0f",
        "\x1bc",
    ],
];
const LINE_ENDS: &[&str] = &["\r\n", "\n", "\r", "\t", "\x08", "\x0b", "\x08\x08"];
const PLACES: &[&str] = &["\x1b[{r};{c}H"];

/// A mix of texts and sequences.
fn mix(dice: &mut Dice, width: u64, height: u64) -> String {
    let mut bytes = String::new();
    for _ in 0..150 {
        match SEQUENCES.get(dice.below(34) as usize) {
            Some(choices) => {
                let sequence = dice.pick(choices).to_owned();
                let sequence = sequence.replace("{c}", &dice.below(width + 2).to_string());
                let sequence = sequence.replace("{r}", &dice.below(height + 2).to_string());
                let sequence = sequence.replace("{n}", &dice.below(5).to_string());
                bytes += &sequence.replace("{h}", &(dice.below(height) + 1).to_string());
            }
            None => {
                for _ in 0..dice.below(width + 3) {
                    bytes += dice.pick(&["a", "b", "c", "x", "y", "z", " "]);
                }
            }
        }
    }
    bytes
}

#[tokio::test]
async fn random_mixes_show_what_tmux_shows() {
    let seeds = std::env::var("TERMINAL_SEEDS").ok();
    let seeds: u64 = seeds.map_or(40, |seeds| seeds.parse().unwrap());
    let private = Private::new();
    let mut cases = Vec::new();
    for seed in 0..seeds {
        let mut dice = Dice(seed);
        let (width, height) = (2 + dice.below(20), 1 + dice.below(8));
        let bytes = mix(&mut dice, width, height);
        let (width, height) = (width as usize, height as usize);
        let name = format!("seed{seed}");
        print(&private, &name, width, height, &bytes);
        cases.push((name, width, height, bytes));
    }
    let mut different = 0;
    for (name, width, height, bytes) in cases {
        let there = shown(&private, &name).await;
        let here = shown_here(width, height, bytes.as_bytes());
        if !there.is_shown_by(&here) {
            different += 1;
            eprintln!("{name}: {width}x{height}\n{bytes:?}\ntmux {there:?}\nhere {here:?}\n");
        }
    }
    assert_eq!(different, 0);
}
