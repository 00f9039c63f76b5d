//! Which of the reported lines match.

use super::*;

#[derive(Clone, Copy)]
enum Kind {
    Literal,
    Folded,
    Regex,
}

/// Shows `old`, with the cursor at the end of its last row, then writes chunks; rows and chunks are parted
/// by `|`. `expected` is the first match.
#[track_caller]
fn check(kind: Kind, pattern: &str, old: &str, chunks: &str, expected: &str) {
    let compiled = match kind {
        Kind::Literal => Pattern::literal(pattern, false),
        Kind::Folded => Pattern::literal(pattern, true),
        Kind::Regex => Pattern::regex(pattern, false).unwrap(),
    };
    let rows: Vec<String> = old.split('|').map(str::to_owned).collect();
    let column = rows[rows.len() - 1].chars().count();
    let cursor = (column, rows.len() - 1);
    let mut terminal = Terminal::seeded(20, 5, &rows, cursor, false);
    let mut found = None;
    for (stamp, chunk) in (1..).zip(chunks.split('|')) {
        terminal.write(chunk.as_bytes(), stamp, &mut |line| {
            if found.is_none() {
                let range = compiled.find(line, 0);
                found = range.map(|range| line.text()[range].to_owned());
            }
        });
    }
    let found = found.as_deref().unwrap_or(NONE);
    assert_eq!(found, expected, "{pattern:?} {old:?} {chunks:?}");
}

const NONE: &str = "no match";

#[test]
fn bad_patterns_are_refused() {
    let why = |text: &str, is_regex| match Pattern::parse(text, is_regex, false) {
        Ok(_) => String::new(),
        Err(error) => error.message,
    };
    for is_regex in [false, true] {
        assert!(why("", is_regex).starts_with("an empty text"));
    }
    assert!(why("(", true).contains("is not a regular expression"));
    assert!(why("(a{1000}){1000}", true).contains("is too large"));
    let long = Pattern::literal(&"é".repeat(100_000), true);
    let mut terminal = Terminal::new(20, 5);
    terminal.write(b"x", 1, &mut |line| assert_eq!(long.find(line, 0), None));
}

#[test]
fn what_can_never_match_is_refused() {
    let refused = |text: &str, is_regex| {
        let parsed = Pattern::parse(text, is_regex, false);
        parsed.is_err_and(|error| error.message.contains("can never match"))
    };
    for text in ["a\nb", "\t", "x\r", "\x1b", "\u{85}"] {
        assert!(refused(text, false), "{text:?}");
        assert!(refused(text, true), "{text:?}");
    }
    for text in [r"a\nb", r"^\t+", r"x[\r\n]", r"(a\n|b\t)c"] {
        assert!(refused(text, true), "{text:?}");
        assert!(!refused(text, false), "{text:?} is a text");
    }
    let possible = [r"a\n?b", r"[ \t]+x", r"\s", r"done\s*$", r"(a\n|b)c"];
    for text in possible
        .into_iter()
        .chain([r"[^\n]", ".", "", "é", r"(?x) a # comment"])
    {
        assert!(!refused(text, true), "{text:?}");
    }
}

#[test]
fn only_what_was_written_counts() {
    use Kind::{Folded, Literal, Regex};
    let ready = |old, chunks, expected| check(Literal, "READY", old, chunks, expected);
    ready("READY> ", "unrelated", NONE);
    ready("READY> ", "unrelated READY", "READY");
    ready("REA", "DY", "READY");
    ready("READY|", "one\r\ntwo\r\n\r\n\r\n\r\n", NONE);
    ready("READY|", "\x1b[A\x1b[L\x1b[2P\x1b[3@", NONE);
    ready("READY|", "\x1b[H\x1b[2Jold\r\nREADY", "READY");
    ready("REAxDY", "\x1b[3D\x1b[P", NONE);
    // A text that was there matches when some of it is written again.
    ready("READY> ", "unrelated\r\n\x1b[32mREA", NONE);
    ready("READY> ", "unrelated\r\n\x1b[32mREA|DY\x1b[m", "READY");
    let (text, expected) = ("Listening on 80", "Listening on");
    check(Folded, "listening ON", "", text, expected);
    check(Regex, "on [0-9]+", "on 1 ", "on 80", "on 80");
    check(Regex, "x*", "xx ", "y", NONE);
    check(Literal, "", "", "y", NONE);
}

#[test]
fn an_old_match_hides_no_new_one() {
    use Kind::{Literal, Regex};
    check(Literal, "aba", "ab", "aba", "aba");
    check(Literal, "aa", "aaa", "a", "aa");
    check(Regex, "ab|bc", "ab", "c", "bc");
    check(Literal, "日日", "日", "日", NONE); // The cursor was within the old one.
}

#[test]
fn pieces_and_wraps_are_put_together() {
    use Kind::{Literal, Regex};
    let text = "listening on 80";
    check(Literal, text, "", "listening |on \x1b[32m8|0\x1b[m", text);
    check(Literal, text, "", "0123456789 listening on 80", text);
    check(Literal, "done", "", "10%\r20%\rdone\rnext", "done");
    check(Regex, "^ready$", "", "ready|x", "ready");
    check(Regex, "^ready$", "", "readyx\x08 \x08", "ready");
}

#[test]
fn a_question_ends_with_a_blank() {
    use Kind::{Literal, Regex};
    check(Literal, "password: ", "", "password: ", "password:");
    check(Literal, "password:  ", "", "password: ", NONE);
    check(Regex, r"\? $", "", "go on? ", "?");
    check(Regex, r"\?$", "", "go on? ", "?");
    check(Literal, " ", "", "\r\n   ", NONE);
}

#[test]
fn since_is_a_stamp() {
    let mut terminal = Terminal::new(20, 5);
    let pattern = Pattern::literal("a", false);
    let mut found = Vec::new();
    for (stamp, chunk) in [(1, "a"), (2, "b"), (3, "a")] {
        terminal.write(chunk.as_bytes(), stamp, &mut |line| {
            let start = |since| pattern.find(line, since).map(|range| range.start);
            found.push([0, 1, 2, 3].map(start));
        });
    }
    let first = [Some(0), None, None, None];
    let last = [Some(0), Some(2), Some(2), None];
    assert_eq!(found, [first, first, last]);
}
