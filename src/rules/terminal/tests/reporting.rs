//! Which lines are reported, and when.

use super::*;

/// Writes chunks, which are parted by `|`; so are the lines that are expected.
#[track_caller]
fn check((width, height): (usize, usize), chunks: &str, expected: &str) {
    let mut terminal = Terminal::new(width, height);
    let pieces: Vec<&[u8]> = chunks.split('|').map(str::as_bytes).collect();
    let reported = reported(&mut terminal, &pieces).join("|");
    assert_eq!(reported, expected, "{chunks:?}");
}

const USUAL: (usize, usize) = (20, 5);
const LOW: (usize, usize) = (20, 2);
const NARROW: (usize, usize) = (5, 4);

#[test]
fn lines_are_reported_at_their_end_or_the_end_of_the_call() {
    check(USUAL, "", "");
    check(USUAL, "one\r\ntwo", "one⏎|two");
    check(USUAL, "one\r\n\r\n  \r\ntwo\r\n", "one⏎|two⏎");
    check(USUAL, "one  ", "one");
    check(USUAL, "LISTEN|ING\r|\n", "LISTEN|LISTENING|LISTENING⏎");
    check(USUAL, "one||\x1b[31m", "one");
    // A run is one change, and a gap is none.
    check(USUAL, "abcdef\rxyz", "abcdef|xyzdef");
    check(USUAL, "a\tb\x1b[5Cc", "a       b     c");
    check(USUAL, "    tail\rab", "    tail|ab  tail");
}

#[test]
fn a_wrapped_line_is_one_line() {
    check(NARROW, "0123456789ab\r\n", "0123456789ab⏎");
    check((5, 2), "0123456789ab\r\nx", "0123456789ab⏎|x");
    check((5, 2), "0123 56 89ab\r\n", "0123 56 89ab⏎");
    check(NARROW, "01234\r\n56", "01234⏎|56");
    let whole = "0123456|0123456789abcdef|0123456789abcdefg⏎";
    check((5, 2), "0123456|789abcdef|g\r\n", whole);
    // It is reported whole before its rows part.
    check(NARROW, "0123456789\x1b[2;1H\x1b[M", "0123456789|01234");
    check(NARROW, "0123456789\x1b[2;1H\x1b[Lx", "0123456789|01234|x");
    check(NARROW, "0123456789\x1b[2;1H\x1b[Kx", "0123456789|01234|x");
    check(NARROW, "0123456789\x1b[2;1H\x1b[J", "0123456789|01234");
}

#[test]
fn colours_titles_and_strings_are_not_text() {
    let check = |bytes, expected| check(USUAL, bytes, expected);
    check("RE\x1b[1;32mAD\x1b[mY", "READY");
    check("a\x1b]0;title\x07b\x1b]8;;x\x1b\\c", "abc");
    check("a\x1bktitle\x1b\\b\x1b_apc\x1b\\c", "abc");
    check("a\x1b^pm\x1b\\b\x1bXsos\x1b\\c", "abc");
    check("a\x1bPtmux;\x1b\x1b[2J\x1b\x1b\\text\x1b\\b", "ab");
    check("a\x1bP1;2qsixel\u{9c}\x18\x1b\\b", "ab");
    check("a\x1b]0;cut\x18b\x1bP1;2\x18c\x1bP:ig\x1b[31md", "abcd");
    check("a\x1b[31\x1b]0;t\x07mb\x1b(Bc\x7f\0", "ambc");
}

#[test]
fn utf8_is_put_together() {
    let text = "§ 日本 🎉 e\u{301}";
    check(USUAL, text, text);
    let mut terminal = Terminal::new(20, 5);
    let reported = reported(&mut terminal, &[b"a\xff\xe2\x82", b"b\xe2\x82\x1b[mc\x9b"]);
    assert_eq!(reported, ["a\u{fffd}", "a\u{fffd}\u{fffd}b\u{fffd}c"]);
}

#[test]
fn every_state_of_a_rewritten_line_is_reported() {
    let works: Vec<String> = (0..1000).map(|percent| format!("work {percent}")).collect();
    let bytes = format!("\r{}\rdone    \r\n", works.join("\r"));
    check(USUAL, &bytes, &format!("{}|done⏎", works.join("|")));

    let check_usual = |bytes, expected| check(USUAL, bytes, expected);
    check_usual("x\x08/\x08-\x08\\\x08 ok", "x|/|-|\\| ok");
    check_usual("10%\r\x1b[K20%\x1b[2K\rdone", "10%|20%|done");
    check_usual("READYxx\x1b[2D\x1b[K", "READYxx|READY");
    check_usual("READYxx\x1b[2D\x1b[P", "READYxx|READYx");
    check_usual("RED\x1b[2D\x1b[@x", "RED|R ED|RxED");
    check_usual("RED\x1b[2D\x1b[4hx", "RED|RxED");
    check_usual("one\r\ntwo\x1b[A\x1b[L", "one⏎|two");
    check_usual("one\x1b[2;1Htwo\x1b[1;1H\x1b[Mx", "one|two|xwo");
    check_usual("one\x1b[2;1Htwo\x1b[1;1H\x1b[M", "one|two");
    check(LOW, "one\x1b[2;1Htwo\x1b[1;1H\x1bMx", "two|x|one");
    check(LOW, "one\x1b[2;1Htwo\x1bcx", "one⏎|two⏎|x");
}

#[test]
fn a_painted_screen_is_reported_row_by_row() {
    let bytes = "old\x1b[2J\x1b[1;1Hone\x1b[2;3Htwo";
    check(USUAL, bytes, "old⏎|one|  two");
    let chunks = "\x1b[1;1Hone\x1b[2;1Htwo|\x1b[1;2HN";
    check(USUAL, chunks, "one|two|oNe");
    let bytes = "01234\x1b[3;1Hab\x1b[1;1H56789x";
    check(NARROW, bytes, "01234|56789x|ab");
}

#[test]
fn the_alternate_screen_has_lines_of_its_own() {
    let bytes = "shell$ vi\x1b[?1049h\x1b[1;1Htext\x1b[?1049l\r\nafter";
    check(USUAL, bytes, "shell$ vi|text|shell$ vi⏎|after");
    let mut terminal = Terminal::new(20, 2);
    terminal.write(b"one\r\ntwo\x1b[?1049h", 1, &mut |_| {});
    assert!(terminal.is_alternate());
    assert_eq!(terminal.rows(), ["", ""]);
    let bytes = b"\r\n\r\n\r\nx\x1b[?1049l";
    assert_eq!(reported(&mut terminal, &[bytes]), ["x"]);
    assert!(!terminal.is_alternate());
    assert_eq!(terminal.rows(), ["one", "two"]);
    assert_eq!(terminal.cursor(), (3, 1));
    assert_eq!(terminal.scrolled(), 0);
}

#[test]
fn an_alternate_screen_at_the_beginning_hides_what_is_not_known() {
    let mut terminal = Terminal::seeded(20, 3, &["painted".into()], (0, 0), true);
    assert!(terminal.is_alternate() && !terminal.is_guess());
    assert_eq!(reported(&mut terminal, &[b"\x1b[?1049lREADY"]), ["READY"]);
    assert!(!terminal.is_alternate() && terminal.is_guess());
    terminal.resize(20, 3, &["$ READY".into()], (7, 0));
    assert!(!terminal.is_guess());
    assert_eq!(reported(&mut terminal, &[b"\r\n"]), ["$ READY⏎"]);
}

#[test]
fn scroll_regions_scroll_lines_off() {
    let bytes = "top\r\n\x1b[2;3r\x1b[2;1Hone\r\ntwo\r\nthree\r\nfour\x1b[4;1Hbar";
    check((20, 4), bytes, "top⏎|one⏎|two⏎|three⏎|four|bar");
    // A row that no line feed ended is reported as complete when it scrolls off.
    check(LOW, "\x1b[1;1Hone\x1b[2;1Htwo\n\n", "two⏎|one⏎");
}

#[test]
fn each_of_many_lines_is_reported_once() {
    let expected: Vec<String> = (0..50_000).map(|number| format!("line {number}")).collect();
    let bytes = expected.join("\r\n") + "\r\n";
    for size in [7, 4096, bytes.len()] {
        let mut terminal = Terminal::new(40, 5);
        let mut complete = Vec::new();
        for (stamp, chunk) in (1..).zip(bytes.as_bytes().chunks(size)) {
            terminal.write(chunk, stamp, &mut |line| {
                if line.is_complete() {
                    complete.push(line.text().to_owned());
                }
            });
        }
        assert!(complete == expected, "{size}: {} lines", complete.len());
        assert_eq!(terminal.scrolled(), 50_001 - 5);
    }
}

#[test]
fn a_line_without_end_is_reported_in_pieces_that_overlap() {
    let mut terminal = Terminal::new(80, 24);
    let mut bytes: String = (0..40_000).map(|number| format!("{number} ")).collect();
    bytes += "\r\n";
    for size in [1000, 4096, bytes.len()] {
        let mut covered = 0;
        let mut longest = 0;
        for (stamp, chunk) in (1..).zip(bytes.as_bytes().chunks(size)) {
            terminal.write(chunk, stamp, &mut |line| {
                let text = line.text_with_blanks();
                longest = longest.max(text.len());
                let first = if covered > 0 {
                    text.find(' ').unwrap() + 1
                } else {
                    0
                };
                let at = bytes.find(&text[first..]).unwrap();
                assert!(at <= covered, "{at} {covered}");
                covered = covered.max(at + text.len() - first);
            });
        }
        assert_eq!(covered, bytes.trim_end_matches(['\r', '\n']).len());
        assert!(longest <= 2 * LINE_LIMIT + 80 * 24, "{longest}");
    }
}

/// As old box-drawing programs write them; `tput smacs`, ncurses without Unicode.
#[test]
fn lines_that_are_drawn_with_letters_are_reported_as_they_are_drawn() {
    check(USUAL, "\x1b(0lqqk\x1b(B ok", "┌──┐ ok");
    check(USUAL, "\x1b)0x\x0exx\x0fx", "x││x");
    // Saved and restored with the cursor; reset with everything.
    check(USUAL, "\x1b(0\x1b7\x1b(B\x1b8q", "─");
    check(USUAL, "\x1b(0\x1bcq", "q");
    check(USUAL, "\x1b(0A1é\x1b(B", "A1é");
    // In captures tmux keeps the letters.
    let mut terminal = Terminal::new(20, 1);
    reported(&mut terminal, &[b"\x1b(0lqqk"]);
    assert_eq!(terminal.rows(), ["lqqk"]);
}
