use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

/// Compiled once for all cases.
static WORD: LazyLock<Pattern> = LazyLock::new(|| Pattern::regex(r"\w+", true).unwrap());

/// Bytes that exercise most of what a terminal does.
pub(super) fn output() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![Just(String::new()), (0..12u16).prop_map(|n| n.to_string())];
    let sequence = (
        prop_oneof![4 => Just(""), 1 => Just("?")],
        prop::collection::vec(number, 0..3),
        "[@A-Za-z`]",
    )
        .prop_map(|(private, numbers, last)| format!("\x1b[{private}{}{last}", numbers.join(";")));
    let mode = (prop::sample::select(vec![3, 6, 7, 47, 1047, 1049]), "[hl]")
        .prop_map(|(mode, last)| format!("\x1b[?{mode}{last}"));
    let piece = prop_oneof![
        6 => "[a-z ]{1,12}".prop_map(String::into_bytes),
        2 => "[日é\u{301}🎉\u{200d}]{1,3}".prop_map(String::into_bytes),
        4 => "[\r\n\t\u{8}]{1,2}".prop_map(String::into_bytes),
        4 => sequence.prop_map(String::into_bytes),
        1 => mode.prop_map(String::into_bytes),
        1 => "\x1b[78DEHMck\\]P_]".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn complete(terminal: &mut Terminal, chunks: &[&[u8]]) -> Vec<String> {
    let mut reported = reported(terminal, chunks);
    reported.retain(|line| line.ends_with('⏎'));
    reported
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_bytes_panic(
        bytes in prop_oneof![output(), any::<Vec<u8>>()],
        width in 0..12usize,
        height in 0..6usize,
        rows in prop::collection::vec(any::<String>(), 0..12),
        cursor: (usize, usize),
        alternate: bool,
    ) {
        let mut terminal = Terminal::seeded(width, height, &rows, cursor, alternate);
        let (before, after) = bytes.split_at(bytes.len() / 2);
        let turned = (height, width);
        for (part, (width, height)) in [(before, (width, height)), (after, turned)] {
            terminal.write(part, 1, &mut |line| {
                let text = line.text();
                if let Some(range) = WORD.find(line, 0) {
                    assert!(!text[range].is_empty());
                }
                assert!(!text.is_empty() && !text.contains(char::is_control));
            });
            let (column, row) = terminal.cursor();
            prop_assert!(column <= width.max(1) && row < height.max(1));
            prop_assert_eq!(terminal.rows().len(), height.max(1));
            terminal.resize(turned.0, turned.1, &rows, cursor);
        }
    }

    #[test]
    fn cuts_change_neither_the_screen_nor_the_complete_lines(
        bytes in output(),
        cuts: Vec<prop::sample::Index>,
    ) {
        let mut whole = Terminal::new(11, 5);
        let mut in_pieces = Terminal::new(11, 5);
        let lines = complete(&mut in_pieces, &cut(&bytes, &cuts));
        prop_assert_eq!(lines, complete(&mut whole, &[&bytes]));
        prop_assert_eq!(in_pieces.rows(), whole.rows());
        prop_assert_eq!(in_pieces.cursor(), whole.cursor());
        prop_assert_eq!(in_pieces.scrolled(), whole.scrolled());
    }

    #[test]
    fn the_screen_at_the_end_of_a_call_was_reported(bytes in output()) {
        let mut terminal = Terminal::new(11, 5);
        terminal.write(b"\x1b[?1049h", 1, &mut |_| {});
        let mut reported = Vec::new();
        terminal.write(&bytes, 2, &mut |line| reported.push(line.text().to_owned()));
        prop_assume!(terminal.is_alternate());
        for row in terminal.rows().into_iter().filter(|row| !row.is_empty()) {
            prop_assert!(reported.iter().any(|line| line.contains(&row)), "{row:?} {reported:?}");
        }
    }
}
