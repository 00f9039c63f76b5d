//! Lines that end with a colon and report something, or show progress: they are no labels.

use std::sync::LazyLock;

use regex::Regex;

use super::pattern::pattern;
use super::words::{
    DIGIT, LETTER, begins_with, ends_with, from_first_word, is_of_word, is_one_of, split_last_word,
    split_word,
};

/// The words of logs, before a colon.
const LOG_WORDS: &[&str] = &[
    "error", "warn", "warning", "info", "debug", "note", "notice", "trace", "fatal", "hint",
    "usage", "remote", "stderr", "stdout", "output", "result", "status", "time",
];

/// Whether the line is one of a log or of progress: these also leave the cursor behind a colon.
pub(super) fn is_progress(text: &str) -> bool {
    static FIGURES: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"\d%|\d{2}:\d{2}:\d{2}|level=|://[^\s'\x22]*:$"));
    static DATE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\d{4}-\d{2}-\d{2}"));
    let start = from_first_word(text);
    let is_of_json = text[..text.len() - start.len()].contains('{');
    is_of_json || begins_progress(start) || DATE.is_match(start) || FIGURES.is_match(text)
}

fn begins_progress(text: &str) -> bool {
    let (word, rest) = split_word(text);
    // What follows behind exactly one space.
    let next = || rest.strip_prefix(' ').map_or("", |rest| split_word(rest).0);
    if ends_with(word, "ing") && word.len() > 3 && LETTER.has_all(word) {
        return true;
    }
    if is_one_of(word, LOG_WORDS) {
        let rest = rest.trim_start();
        if rest
            .strip_prefix([']', ')'])
            .unwrap_or(rest)
            .starts_with(':')
        {
            return true;
        }
    }
    is_one_of(word, &["progress", "done", "total", "elapsed", "eta"])
        || (is_one_of(word, &["step"]) && next().chars().count() == 1 && DIGIT.has_all(next()))
        || (is_one_of(word, &["time"])
            && is_one_of(next(), &["taken", "elapsed", "left", "remaining", "spent"]))
}

/// Whether it is a report before its figure: `epoch 3 loss:`, `Took 3.2s:`, `Server ready:`. A
/// label names what to type; it does not count and does not report a result.
pub(super) fn is_report(text: &str) -> bool {
    static COUNTS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"\b(?:epoch|iter(?:ation)?|batch|round|phase|pass|attempt|try|run|case|worker|thread|job|chunk|layer|shard|rank|fold|trial|frame)s?\s*[#=]?\d",
            r"|\b\d+(?:[.,]\d+)?\s?(?:ns|[mµu]?s|secs?|seconds?|min|minutes?|h|hours?|[kmgt]i?b|bytes|files?|rows?|lines?|items?|tests?|errors?|warnings?)\b",
        ))
    });
    begins_report(from_first_word(text)) || ends_report(text) || COUNTS.is_match(text)
}

/// `Took`, `Finished in`, `Loaded 5`.
fn begins_report(text: &str) -> bool {
    const STARTS: &[&str] = &[
        "took", "found", "built", "ran", "got", "wrote", "spent", "sent", "saw",
    ];
    if STARTS.iter().any(|start| begins_with(text, start)) {
        return true;
    }
    let (word, rest) = split_word(text);
    let object = rest.trim_start();
    word.len() > 2
        && ends_with(word, "ed")
        && LETTER.has_all(word)
        && object.len() < rest.len()
        && (object.starts_with(|c| DIGIT.has(c))
            || is_one_of(
                split_word(object).0,
                &["in", "at", "to", "from", "with", "on", "by"],
            ))
}

/// `ready:`, `changed:`, `applied:`.
fn ends_report(text: &str) -> bool {
    const ENDS: &[&str] = &[
        "ready",
        "complete",
        "ok",
        "done",
        "success",
        "successful",
        "up",
        "down",
        "loss",
        "acc",
        "accuracy",
        "perplexity",
        "throughput",
        "latency",
        "fps",
        "lr",
    ];
    let Some(text) = text.strip_suffix(':') else {
        return false;
    };
    let (_, word) = split_last_word(text.trim_end());
    if is_one_of(word, ENDS) {
        return true;
    }
    if !ends_with(word, "ed") {
        return false;
    }
    // `need` and `speed` report nothing.
    let stem = &word[..word.len() - 2];
    let mut front = stem.chars();
    match front.next_back() {
        Some('i' | 'I') if !front.as_str().is_empty() && LETTER.has_all(front.as_str()) => true,
        Some(last) => {
            is_of_word(last)
                && !matches!(last, 'e' | 'E')
                && front.as_str().chars().nth(1).is_some()
                && LETTER.has_all(front.as_str())
        }
        None => false,
    }
}
