//! The rules for prompts, judged on screens of real programs.
//!
//! The files in `tests/fixtures/prompts` contain screens of programs that wait for input, and screens
//! that only look like it. The notes of captured screens contain the kernel's evidence.
//! `libraries_and_tools.jsonl` also says whether typed text must not be displayed, and
//! `drawn_by_programs.jsonl`, whose programs hide the cursor, where they draw one themselves.

use std::collections::BTreeMap;

use serde::Deserialize;
use tmux_task::model::{CursorPosition, Foreground, Prompt, Screen, TtyEvidence, TtyUse, text};
use tmux_task::rules::prompt::{self, Judgement, UserRules};

/// One screen of the corpus.
#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    tool: String,
    screen: String,
    cursor_x: Option<u32>,
    /// Negative where the corpus has cut the blank row that the cursor stands on.
    cursor_row: Option<i64>,
    expect: String,
    prompt: Option<String>,
    kind: String,
    source: String,
    alt: bool,
    hard: bool,
    note: String,
    /// Whether the answer is a secret, in the files that say so.
    secret: Option<bool>,
    /// Whether the cursor is hidden, and where the program draws one itself, in the file that says so.
    #[serde(default)]
    cursor_hidden: bool,
    drawn: Option<(u32, u32)>,
}

impl Row {
    fn is_input(&self) -> bool {
        self.expect == "input"
    }

    fn has_kind(&self, prompt: &Prompt) -> bool {
        prompt.kind.to_string() == self.kind
    }

    fn has_line(&self, prompt: &Prompt) -> bool {
        let line = self.prompt.as_ref();
        line.is_none_or(|line| *line == prompt.text)
    }

    fn screen(&self) -> Screen {
        let rows = self.screen.split('\n');
        Screen {
            rows: rows.map(|row| text::row(row.as_bytes())).collect(),
            cursor: self
                .cursor_x
                .zip(self.cursor_row.and_then(|row| u32::try_from(row).ok()))
                .map(|(x, y)| CursorPosition { x, y }),
            alternate: Some(self.alt),
            top: None,
            last_lines: None,
            width: None,
            is_cursor_hidden: self.cursor_hidden,
            drawn_cursor: self.drawn.map(|(x, y)| CursorPosition { x, y }),
        }
    }

    /// What the kernel knew, from the note of a captured screen.
    fn terminal(&self) -> Option<TtyEvidence> {
        let (_, note) = self.note.split_once("tty: ")?;
        let (modes, foreground) = note.split_once(';')?;
        let has = |word| modes.split_whitespace().any(|mode| mode == word);
        let mode = |on, off| match (has(on), has(off)) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        };
        let reads =
            foreground.contains("read(fd->/dev/tty)") || foreground.contains("read(fd->/dev/pts/");
        let reader = if reads {
            TtyUse::Reading
        } else if ["do_epoll_wait", "poll_schedule_timeout"]
            .iter()
            .any(|wait| foreground.contains(wait))
        {
            TtyUse::Polling
        } else if ["hrtimer_nanosleep", "syscall=running"]
            .iter()
            .any(|wait| foreground.contains(wait))
        {
            TtyUse::Elsewhere
        } else {
            // The main thread waits for others, of which the note says nothing.
            TtyUse::Unknown
        };
        let program = |part: &str| {
            let name = part.split_whitespace().next()?;
            part.contains("wchan=").then(|| name.to_owned())
        };
        let programs = foreground
            .trim_start()
            .trim_start_matches("foreground:")
            .split(';');
        Some(TtyEvidence {
            reader,
            echo: mode("ECHO", "-echo"),
            canonical: mode("ICANON", "-icanon"),
            foreground: if note.ends_with("; idle") {
                Foreground::Idle
            } else {
                Foreground::Unknown
            },
            programs: programs.filter_map(program).collect(),
            ..TtyEvidence::default()
        })
    }
}

fn corpus() -> Vec<Row> {
    rows_of(include_str!("../fixtures/prompts/corpus.jsonl"))
        .chain(libraries_and_tools())
        .collect()
}

fn libraries_and_tools() -> impl Iterator<Item = Row> {
    rows_of(include_str!(
        "../fixtures/prompts/libraries_and_tools.jsonl"
    ))
    .chain(rows_of(include_str!(
        "../fixtures/prompts/drawn_by_programs.jsonl"
    )))
}

fn rows_of(text: &'static str) -> impl Iterator<Item = Row> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("every line is a screen"))
}

/// How many prompts were reported, and how many of these correctly.
#[derive(Debug, Default, Clone, Copy)]
struct Score {
    inputs: usize,
    found: usize,
    others: usize,
    fired: usize,
    kind_right: usize,
}

impl Score {
    fn recall(self) -> f64 {
        ratio(self.found, self.inputs)
    }

    fn false_fires(self) -> f64 {
        ratio(self.fired, self.others)
    }

    fn add(&mut self, row: &Row, judgement: &Judgement) {
        let found = judgement.found.as_ref().map(|found| &found.prompt);
        if row.is_input() {
            self.inputs += 1;
            self.found += usize::from(found.is_some());
            self.kind_right += usize::from(found.is_some_and(|found| row.has_kind(found)));
        } else {
            self.others += 1;
            self.fired += usize::from(found.is_some());
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "the counts are small")]
fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Judges every screen and writes down what went wrong. Returns the score without the hard ones.
#[expect(
    clippy::print_stdout,
    reason = "the figures are what one runs this for"
)]
fn score(title: &str, rows: &[&Row], judge: impl Fn(&Row) -> Judgement) -> Score {
    let mut totals: BTreeMap<&str, Score> = BTreeMap::new();
    println!("{title}: {} screens", rows.len());
    for row in rows {
        let judgement = judge(row);
        let total = if row.hard { "hard" } else { "easy" };
        for name in [total, &row.kind] {
            totals.entry(name).or_default().add(row, &judgement);
        }
        let told = judgement.found.as_ref().map(|found| &found.prompt);
        let is_right = |told| row.is_input() && row.has_kind(told) && row.has_line(told);
        if row.is_input() != told.is_some() || !told.is_none_or(is_right) {
            let (rule, expected) = (judgement.rule, (&row.expect, &row.kind, &row.prompt));
            println!(
                "  {total}: {} ({}): {rule}: {told:?} for {expected:?}",
                row.id, row.tool
            );
        }
    }
    for (name, score) in &totals {
        println!("  {name}: recall {:.3}, {score:?}", score.recall());
    }
    totals["easy"]
}

fn by_screen(row: &Row) -> Judgement {
    prompt::judge(&row.screen(), None, &UserRules::default())
}

fn by_everything(row: &Row) -> Judgement {
    prompt::judge(
        &row.screen(),
        row.terminal().as_ref(),
        &UserRules::default(),
    )
}

/// As where the kernel shows nothing else.
fn by_modes(row: &Row) -> Judgement {
    let modes = row.terminal().map(|terminal| TtyEvidence {
        echo: terminal.echo,
        canonical: terminal.canonical,
        ..TtyEvidence::default()
    });
    prompt::judge(&row.screen(), modes.as_ref(), &UserRules::default())
}

#[test]
fn screens_alone_show_most_prompts() {
    let rows = corpus();
    let easy = score("screen alone", &rows.iter().collect::<Vec<_>>(), by_screen);
    assert!(easy.recall() >= 0.97, "{easy:?}");
    assert!(easy.false_fires() <= 0.01, "{easy:?}");
}

#[test]
fn with_evidence_nearly_every_prompt_is_reported_and_nothing_else() {
    let rows = corpus();
    let live: Vec<&Row> = rows.iter().filter(|row| row.source == "captured").collect();
    let easy = score("with evidence", &live, by_everything);
    assert!(easy.recall() >= 0.97, "{easy:?}");
    assert_eq!(easy.fired, 0, "{easy:?}");
    let easy = score("with the terminal's modes", &live, by_modes);
    assert!(easy.recall() >= 0.97, "{easy:?}");
    assert!(easy.false_fires() <= 0.02, "{easy:?}");
}

#[test]
fn what_is_asked_and_whether_it_is_a_secret_is_right() {
    let mut wrong = Vec::new();
    let mut kinds = Score::default();
    for row in libraries_and_tools().filter(|row| row.is_input() && !row.hard) {
        let judgement = by_everything(&row);
        kinds.add(&row, &judgement);
        let told = judgement.found.map(|found| found.prompt);
        let asks = told.as_ref().map(|prompt| prompt.text.as_str());
        let is_secret = told.as_ref().map(|prompt| prompt.secret);
        let is_line = row.prompt.is_none() || row.prompt.as_deref() == asks;
        if !is_line || (told.is_some() && row.secret != is_secret) {
            wrong.push(format!(
                "{}: {told:?} for {:?}, secret {:?}",
                row.id, row.prompt, row.secret
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ratio(kinds.kind_right, kinds.inputs) >= 0.97, "{kinds:?}");
}
