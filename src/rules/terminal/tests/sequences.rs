//! Effects of single sequences, for which the random mixes against tmux are too coarse.

use super::*;

#[track_caller]
fn check(bytes: &str, rows: &[&str], cursor: (usize, usize)) {
    let mut terminal = Terminal::new(10, 3);
    terminal.write(bytes.as_bytes(), 1, &mut |_| {});
    let shown = terminal.rows();
    let all = [rows, &[""; 3]].concat();
    assert_eq!(shown, all[..3], "{bytes:?}");
    assert_eq!(terminal.cursor(), cursor, "{bytes:?}");
}

#[test]
fn the_last_column_waits_for_the_next_character() {
    check("0123456789", &["0123456789"], (10, 0));
    check("0123456789\rx", &["x123456789"], (1, 0));
    check("0123456789x", &["0123456789", "x"], (1, 1));
    check("0123456789\x1b[?7lxyz", &["0123456789"], (10, 0));
    check("\x1b[?7l0123456789xyz", &["012345678z"], (9, 0));
    check("012345678日", &["012345678", "日"], (2, 1));
    check("0123456789x\x08\x08y", &["012345678y", "x"], (10, 0));
}

#[test]
fn wide_characters_break_as_a_whole() {
    check("日本\x1b[2Gx", &[" x本"], (2, 0));
    check("日本\rx", &["x 本"], (1, 0));
    check("a日\x1b[1G本", &["本"], (2, 0));
    check("e\u{301}x", &["e\u{301}x"], (2, 0));
    check("日\u{301}x", &["日\u{301}x"], (3, 0));
    check("\u{301}x", &["x"], (1, 0));
}

#[test]
fn tab_stops_are_set_and_cleared() {
    check("a\tb\tc\td", &["a       bc", "d"], (1, 1));
    check("\x1b[4G\x1bH\ra\tb", &["a  b"], (4, 0));
    check("\x1b[3ga\tb", &["a        b"], (10, 0));
    check("\x1b[9G\x1b[g\ra\tb\x1b[Zc", &["c        b"], (1, 0));
}

#[test]
fn repeats_the_last_character_only() {
    check("ab\x1b[3b", &["abbbb"], (5, 0));
    check("ab\r\x1b[3b", &["ab"], (0, 0));
    check("ab\x1b[99b", &["abbbbbbbbb"], (10, 0));
}

#[test]
fn a_capture_is_shown_as_it_was() {
    let rows = ["a\tb", "0123456789", "日本"].map(String::from);
    let mut terminal = Terminal::seeded(10, 3, &rows, (10, 1), false);
    assert_eq!(terminal.rows(), ["a       b", "0123456789", "日本"]);
    assert_eq!(reported(&mut terminal, &[b"x"]), ["0123456789x 本"]);
    terminal.resize(4, 2, &["abcdef".into(), "gh".into(), "ij".into()], (9, 9));
    assert_eq!(terminal.rows(), ["abcd", "gh"]);
    assert_eq!(terminal.cursor(), (4, 1));
}

#[test]
fn a_string_that_never_ends_can_be_given_up() {
    let mut terminal = Terminal::new(10, 3);
    let never = b"\x1b]0;never\r\nREADY";
    assert_eq!(reported(&mut terminal, &[never]), [""; 0]);
    assert!(terminal.is_in_string());
    terminal.abandon_string();
    assert!(!terminal.is_in_string());
    assert_eq!(reported(&mut terminal, &[b"READY"]), ["READY"]);
}
