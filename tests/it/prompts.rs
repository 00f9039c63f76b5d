//! The rules for prompts, judged on screens of real programs.
//!
//! The files in `tests/fixtures/prompts` contain screens of programs that wait for input, and screens
//! that only look like it. The notes of captured screens contain the kernel's evidence.
//! `libraries_and_tools.jsonl` also says whether typed text must not be displayed, and
//! `drawn_by_programs.jsonl`, whose programs hide the cursor, where they draw one themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Deserialize;
use tmux_task::model::{CursorPosition, Foreground, Screen, TtyEvidence, TtyUse, text};
use tmux_task::prompt::{self, Judgement, UserRules};

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
    line_right: usize,
}

impl Score {
    fn recall(self) -> f64 {
        ratio(self.found, self.inputs)
    }

    fn false_fires(self) -> f64 {
        ratio(self.fired, self.others)
    }

    fn add(&mut self, row: &Row, judgement: &Judgement) {
        match (row.is_input(), &judgement.found) {
            (true, found) => {
                self.inputs += 1;
                if let Some(found) = found {
                    self.found += 1;
                    self.kind_right += usize::from(found.prompt.kind.to_string() == row.kind);
                    let is_line = row
                        .prompt
                        .as_ref()
                        .is_none_or(|prompt| *prompt == found.prompt.text);
                    self.line_right += usize::from(is_line);
                }
            }
            (false, found) => {
                self.others += 1;
                self.fired += usize::from(found.is_some());
            }
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

/// Judges every screen and writes down what went wrong.
#[expect(
    clippy::print_stdout,
    reason = "the figures are what one runs this for"
)]
fn score(title: &str, rows: &[&Row], judge: impl Fn(&Row) -> Judgement) -> (Score, Score) {
    let mut easy = Score::default();
    let mut hard = Score::default();
    let mut by_kind: BTreeMap<&str, Score> = BTreeMap::new();
    let mut report = String::new();
    for row in rows {
        let judgement = judge(row);
        let total = if row.hard { &mut hard } else { &mut easy };
        total.add(row, &judgement);
        by_kind.entry(&row.kind).or_default().add(row, &judgement);
        let told = judgement.found.as_ref().map(|found| &found.prompt);
        if row.is_input() != told.is_some() {
            let sort = if row.is_input() { "missed" } else { "false" };
            let hard = if row.hard { " (hard)" } else { "" };
            let rule = judgement.rule;
            writeln!(
                report,
                "  {sort}{hard}: {} ({}): {rule}: {told:?}",
                row.id, row.tool
            )
            .expect("a string takes everything");
        } else if let Some(prompt) = told
            && (prompt.kind.to_string() != row.kind
                || row.prompt.as_ref().is_some_and(|line| *line != prompt.text))
        {
            writeln!(
                report,
                "  other: {}: {} for {}, {:?} for {:?}",
                row.id, prompt.kind, row.kind, prompt.text, row.prompt
            )
            .expect("a string takes everything");
        }
    }
    println!("{title}: {} screens", rows.len());
    for (name, score) in [("hard rows apart", easy), ("hard rows", hard)] {
        println!(
            "  {name}: recall {:.3} ({}/{}), false fires {:.3} ({}/{}), precision {:.3}, kind right {}, line right {}",
            score.recall(),
            score.found,
            score.inputs,
            score.false_fires(),
            score.fired,
            score.others,
            ratio(score.found, score.found + score.fired),
            score.kind_right,
            score.line_right,
        );
    }
    for (kind, score) in by_kind {
        if score.inputs > 0 {
            println!(
                "  {kind}: recall {:.3} ({}/{})",
                score.recall(),
                score.found,
                score.inputs
            );
        }
    }
    print!("{report}");
    (easy, hard)
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

/// The tools in two halves, so that rules made with one can be judged with the other.
fn halves(rows: &[Row]) -> (Vec<&Row>, Vec<&Row>) {
    let tools: BTreeSet<&str> = rows.iter().map(|row| row.tool.as_str()).collect();
    let first: BTreeSet<&str> = tools.into_iter().step_by(2).collect();
    rows.iter()
        .partition(|row| first.contains(row.tool.as_str()))
}

#[test]
fn screens_alone_show_most_prompts() {
    let rows = corpus();
    let (ours, others) = halves(&rows);
    score("screen alone, first half of the tools", &ours, by_screen);
    score("screen alone, second half of the tools", &others, by_screen);
    let (easy, _) = score("screen alone", &rows.iter().collect::<Vec<_>>(), by_screen);
    assert!(easy.recall() >= 0.97, "{easy:?}");
    assert!(easy.false_fires() <= 0.01, "{easy:?}");
}

#[test]
fn with_evidence_nearly_every_prompt_is_reported_and_nothing_else() {
    let rows = corpus();
    let live: Vec<&Row> = rows.iter().filter(|row| row.source == "captured").collect();
    let (ours, others) = halves(&rows);
    let ours: Vec<&Row> = ours
        .into_iter()
        .filter(|row| row.source == "captured")
        .collect();
    let others: Vec<&Row> = others
        .into_iter()
        .filter(|row| row.source == "captured")
        .collect();
    score(
        "with evidence, first half of the tools",
        &ours,
        by_everything,
    );
    score(
        "with evidence, second half of the tools",
        &others,
        by_everything,
    );
    let (easy, _) = score("with evidence", &live, by_everything);
    assert!(easy.recall() >= 0.97, "{easy:?}");
    assert_eq!(easy.fired, 0, "{easy:?}");
    let (easy, _) = score("with the terminal's modes", &live, by_modes);
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
