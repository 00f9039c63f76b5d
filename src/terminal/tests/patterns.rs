//! Which of the reported lines match.

use super::*;

#[derive(Clone, Copy)]
enum Kind {
    Literal,
    Folded,
    Regex,
}

/// Shows `old`, with the cursor at the end of its last row, then writes chunks. `expected` is the
/// first match.
#[track_caller]
fn check(kind: Kind, pattern: &str, old: &[&str], chunks: &[&str], expected: Option<&str>) {
    let compiled = match kind {
        Kind::Literal => Pattern::literal(pattern, false),
        Kind::Folded => Pattern::literal(pattern, true),
        Kind::Regex => Pattern::regex(pattern, false).unwrap(),
    };
    let rows: Vec<String> = old.iter().map(ToString::to_string).collect();
    let column = old.last().map_or(0, |row| row.chars().count());
    let cursor = (column, old.len().saturating_sub(1));
    let mut terminal = Terminal::seeded(20, 5, &rows, cursor, false);
    let mut found = None;
    for (stamp, chunk) in (1..).zip(chunks) {
        terminal.write(chunk.as_bytes(), stamp, &mut |line| {
            if found.is_none() {
                let range = compiled.find(line, 0);
                found = range.map(|range| line.text()[range].to_owned());
            }
        });
    }
    assert_eq!(found.as_deref(), expected, "{pattern:?} {old:?} {chunks:?}");
}

#[test]
fn an_empty_pattern_is_refused() {
    for is_regex in [false, true] {
        let parsed = Pattern::parse("", is_regex, false);
        assert!(parsed.unwrap_err().message.starts_with("an empty text"));
    }
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
    for text in [
        r"a\n?b",
        r"[ \t]+x",
        r"\s",
        r"done\s*$",
        r"(a\n|b)c",
        r"[^\n]",
        ".",
        "",
        "é",
        r"(?x) a # comment",
    ] {
        assert!(!refused(text, true), "{text:?}");
    }
}

#[test]
fn only_what_was_written_counts() {
    use Kind::{Folded, Literal, Regex};
    check(Literal, "READY", &["READY> "], &["unrelated"], None);
    check(
        Literal,
        "READY",
        &["READY> "],
        &["unrelated READY"],
        Some("READY"),
    );
    check(Literal, "READY", &["REA"], &["DY"], Some("READY"));
    check(
        Literal,
        "READY",
        &["READY", ""],
        &["one\r\ntwo\r\n\r\n\r\n\r\n"],
        None,
    );
    check(
        Literal,
        "READY",
        &["READY", ""],
        &["\x1b[A\x1b[L\x1b[2P\x1b[3@"],
        None,
    );
    check(
        Literal,
        "READY",
        &["READY", ""],
        &["\x1b[H\x1b[2Jold\r\nREADY"],
        Some("READY"),
    );
    check(Literal, "READY", &["REAxDY"], &["\x1b[3D\x1b[P"], None);
    check(
        Folded,
        "listening ON",
        &[""],
        &["Listening on 80"],
        Some("Listening on"),
    );
    check(Regex, "on [0-9]+", &["on 1 "], &["on 80"], Some("on 80"));
    check(Regex, "x*", &["xx "], &["y"], None);
    check(Literal, "", &[""], &["y"], None);
}

#[test]
fn an_old_match_hides_no_new_one() {
    use Kind::{Literal, Regex};
    check(Literal, "aba", &["ab"], &["aba"], Some("aba"));
    check(Literal, "aa", &["aaa"], &["a"], Some("aa"));
    check(Regex, "ab|bc", &["ab"], &["c"], Some("bc"));
    check(Literal, "日日", &["日"], &["日"], None); // The cursor was within the old one.
}

#[test]
fn pieces_and_wraps_are_put_together() {
    use Kind::{Literal, Regex};
    check(
        Literal,
        "listening on 80",
        &[""],
        &["listening ", "on \x1b[32m8", "0\x1b[m"],
        Some("listening on 80"),
    );
    check(
        Literal,
        "listening on 80",
        &[""],
        &["0123456789 listening on 80"],
        Some("listening on 80"),
    );
    check(
        Literal,
        "done",
        &[""],
        &["10%\r20%\rdone\rnext"],
        Some("done"),
    );
    check(Regex, "^ready$", &[""], &["ready", "x"], Some("ready"));
    check(Regex, "^ready$", &[""], &["readyx\x08 \x08"], Some("ready"));
}

#[test]
fn a_question_ends_with_a_blank() {
    use Kind::{Literal, Regex};
    check(
        Literal,
        "password: ",
        &[""],
        &["password: "],
        Some("password:"),
    );
    check(Literal, "password:  ", &[""], &["password: "], None);
    check(Regex, r"\? $", &[""], &["go on? "], Some("?"));
    check(Regex, r"\?$", &[""], &["go on? "], Some("?"));
    check(Literal, " ", &[""], &["\r\n   "], None);
}

#[test]
fn since_is_a_stamp() {
    let mut terminal = Terminal::new(20, 5);
    let pattern = Pattern::literal("a", false);
    let mut found = Vec::new();
    for (stamp, chunk) in [(1, "a"), (2, "b"), (3, "a")] {
        terminal.write(chunk.as_bytes(), stamp, &mut |line| {
            found
                .push([0, 1, 2, 3].map(|since| pattern.find(line, since).map(|range| range.start)));
        });
    }
    assert_eq!(
        found,
        [
            [Some(0), None, None, None],
            [Some(0), None, None, None],
            [Some(0), Some(2), Some(2), None]
        ]
    );
}

#[test]
fn bad_patterns_are_refused() {
    assert!(
        Pattern::regex("(", false)
            .unwrap_err()
            .message
            .contains("is not a regular expression")
    );
    let large = Pattern::regex("(a{1000}){1000}", false);
    assert!(large.unwrap_err().message.contains("is too large"));
    let long = "é".repeat(100_000);
    let pattern = Pattern::literal(&long, true);
    let mut terminal = Terminal::new(20, 5);
    terminal.write(b"x", 1, &mut |line| assert_eq!(pattern.find(line, 0), None));
}

#[test]
fn a_text_that_was_there_matches_only_when_some_of_it_is_written_again() {
    let mut terminal = Terminal::seeded(80, 24, &["READY> ".to_owned()], (7, 0), false);
    let ready = Pattern::literal("READY", false);
    let mut found = Vec::new();
    terminal.write(b"unrelated\r\n\x1b[32mREA", 1, &mut |line| {
        found.extend(ready.find(line, 0));
    });
    assert!(found.is_empty());
    terminal.write(b"DY\x1b[m", 2, &mut |line| {
        found.extend(ready.find(line, 0))
    });
    assert_eq!(found, vec![0..5]);
}
