//! Text without what programs redraw all the time: turning signs, growing dots, and times.
//!
//! A prompt with such a part is one prompt, however often it is drawn.

use super::Screen;

/// What is left out of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    /// Turning signs and growing dots.
    Signs,
    /// Times as well.
    SignsAndTimes,
}

/// Returns the text without what a program may animate in it, and without white space, which moves
/// when that changes its width.
pub fn without_animation(text: &str) -> String {
    without(text, LeftOut::SignsAndTimes)
}

fn without(text: &str, left_out: LeftOut) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut rest = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        let time = match left_out {
            LeftOut::Signs => None,
            LeftOut::SignsAndTimes => time_length(&chars, at),
        };
        if let Some(length) = time {
            at += length;
            continue;
        }
        if !c.is_whitespace() && !is_sign_at(&chars, at) && !is_dot_at(&chars, at) {
            rest.push(*c);
        }
        at += 1;
    }
    rest
}

/// Whether two texts differ at most in turning signs, growing dots and white space. A time may be what
/// is asked about.
pub fn is_same_except_signs(text: &str, other: &str) -> bool {
    let rest = without(text, LeftOut::Signs);
    !rest.is_empty() && rest == without(other, LeftOut::Signs)
}

/// Returns the text without a turning sign at its end, behind white space; `None` where there is
/// none.
pub fn without_last_sign(text: &str) -> Option<&str> {
    let (before, sign) = text.trim_end().rsplit_once(char::is_whitespace)?;
    let mut chars = sign.chars();
    let is_sign = |c| is_sign(c) || is_bar(c);
    let is_one = chars.next().is_some_and(is_sign) && chars.next().is_none();
    is_one.then(|| before.trim_end())
}

impl Screen {
    /// Whether the rows differ at most in what programs animate, and in white space. Rows that are
    /// shared are not compared one by one.
    pub fn is_same_but_animated(&self, other: &Self) -> bool {
        let is_same = |(row, other): (&String, &String)| {
            row == other || without_animation(row) == without_animation(other)
        };
        self.has_rows_of(other)
            || (self.rows.len() == other.rows.len()
                && self.rows.iter().zip(other.rows.iter()).all(is_same))
    }

    /// Returns the screen without what programs animate.
    pub fn without_animation(&self) -> Self {
        Self {
            rows: self.rows.iter().map(|row| without_animation(row)).collect(),
            ..self.clone()
        }
    }
}

/// Whether the character is used for nothing but to show that a program is at work. Marks of choices
/// in a list, such as `●` or `▶`, are not included.
fn is_sign(c: char) -> bool {
    matches!(
        c,
        // Braille patterns, parts of frames and of blocks.
        '\u{2800}'..='\u{28ff}' | '\u{2500}'..='\u{259f}'
        // Quarters and halves of circles and squares, triangles.
        | '◐'..='◓' | '◜'..='◥' | '◰'..='◷'
        // Stars.
        | '✠'..='❉'
        // Trigrams, hourglasses, clocks, globes and moons.
        | '☰'..='☷' | '⌛' | '⏳' | '🕐'..='🕧' | '🌍'..='🌏' | '🌑'..='🌘'
        | '…' | '⋯' | '·' | '∙'
    )
}

/// Whether the character is a position of a bar that turns.
fn is_bar(c: char) -> bool {
    matches!(c, '|' | '/' | '-' | '\\')
}

fn is_sign_at(chars: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| chars[before]);
    let is_edge = |c: Option<char>, bracket: &[char]| {
        c.is_none_or(|c| c.is_whitespace() || bracket.contains(&c))
    };
    is_sign(chars[at])
        || is_bar(chars[at])
            && is_edge(before, &['[', '(', '{', '<'])
            && is_edge(chars.get(at + 1).copied(), &[']', ')', '}', '>'])
}

/// Whether there is a dot behind a word, perhaps with others, and nothing of a path or of a number.
fn is_dot_at(chars: &[char], at: usize) -> bool {
    let is_dot = |c: &&char| **c == '.';
    let mut before = chars[..at].iter().rev().skip_while(is_dot);
    let mut behind = chars[at..].iter().skip_while(is_dot);
    let ends_word = |c: &char| c.is_whitespace() || matches!(c, ')' | ']' | '}' | '>');
    chars[at] == '.'
        && before.next().is_some_and(|c| c.is_alphanumeric())
        && behind.next().is_none_or(ends_word)
}

/// Whether a time there is shown, and not asked about: it is the first of its row, in brackets, or
/// behind a word such as `in`.
fn shows_time(chars: &[char], start: usize) -> bool {
    let text: String = chars[..start].iter().collect();
    let before = text.trim_end();
    before.chars().all(|c| !c.is_alphanumeric())
        || before.ends_with(['(', '[', '{', '<'])
        || before
            .rsplit(char::is_whitespace)
            .next()
            .is_some_and(|word| matches!(word, "in" | "after" | "within"))
        // The second part of `1m 5s`.
        || before.ends_with(['h', 'm', 's']) && is_time_before(before)
}

/// Whether the text ends with a time such as `1m`.
fn is_time_before(text: &str) -> bool {
    let number = text.trim_end_matches(['h', 'm', 's']);
    let word = number.rsplit(|c: char| !c.is_ascii_digit()).next();
    word.is_some_and(|digits| !digits.is_empty())
}

/// Returns the length of the time that begins there: `0:09`, `12:00:03`, `9s`, `1.5 s`, `10 seconds`.
fn time_length(chars: &[char], start: usize) -> Option<usize> {
    const UNITS: &[&str] = &[
        "s", "sec", "secs", "second", "seconds", "ms", "m", "min", "mins", "minute", "minutes",
        "h", "hour", "hours",
    ];
    let is_digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let is_of_word = |at: usize| chars.get(at).is_some_and(|c| c.is_alphanumeric());
    let goes_on = |at: usize| is_of_word(at) || chars.get(at) == Some(&'.');
    if !is_digit(start) || start.checked_sub(1).is_some_and(goes_on) || !shows_time(chars, start) {
        return None;
    }
    let digits = |at: usize| (at..).take_while(|at| is_digit(*at)).count();
    let mut end = start + digits(start);
    let mut is_clock = false;
    while chars.get(end) == Some(&':') && digits(end + 1) == 2 {
        end += 3;
        is_clock = true;
    }
    if chars.get(end) == Some(&'.') && is_digit(end + 1) {
        end += 1 + digits(end + 1);
    }
    if is_clock {
        return (!is_of_word(end)).then_some(end - start);
    }
    let unit_at = end + usize::from(chars.get(end) == Some(&' '));
    let unit: String = chars[unit_at.min(chars.len())..]
        .iter()
        .take_while(|c| c.is_alphabetic())
        .collect();
    let end = unit_at + unit.chars().count();
    // `1m5s` is two of them.
    let is_time = UNITS.contains(&unit.as_str()) && !is_of_word(end);
    is_time.then_some(end - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_grows_or_counts_time_is_left_out() {
        let check = |texts: &[&str]| {
            let first = without_animation(texts[0]);
            assert!(first.contains("Go"), "{first}");
            for text in texts {
                assert_eq!(without_animation(text), first, "{text}");
            }
        };
        check(&["| Go?", "/ Go?", "- Go?", "\\ Go?", "  Go?"]);
        check(&["[|] Go? [y/N]", "[\\] Go? [y/N]"]);
        check(&["Go? [y/N] |", "Go? [y/N] -", "Go? [y/N] ⠙"]);
        check(&["[⠋] Go?", "[⠙] Go?", "[⣾] Go?"]);
        check(&["◐ Go?", "🌒 Go?", "🕐 Go?", "✶ Go?", "▁▂ Go?"]);
        check(&["Go.", "Go..", "Go...", "Go   "]);
        check(&["Go (9s)", "Go (10s)", "Go (1 s)", "Go (0:59)", "Go (1.5s)"]);
        check(&["12:00:59 Go?", "12:01:00 Go?"]);
        check(&["Go in 1 second?", "Go in 10 seconds?"]);
    }

    #[test]
    fn what_is_asked_is_not_left_out() {
        for (text, expected) in [
            ("Go? [y/N]", "Go?[y/N]"),
            ("Use src/a-b.rs?", "Usesrc/a-b.rs?"),
            ("Player 2?", "Player2?"),
            ("Use v1.2 of s3?", "Usev1.2ofs3?"),
            ("Remove 3 seeds?", "Remove3seeds?"),
            ("Port 80:8080?", "Port80:8080?"),
            ("● Yes ○ No", "●Yes○No"),
            ("> Yes   No", ">YesNo"),
            ("Copy 45%?", "Copy45%?"),
            ("Read .env?", "Read.env?"),
            ("Delete ../build?", "Delete../build?"),
            ("Delete ./build?", "Delete./build?"),
            ("Delete .. ?", "Delete..?"),
            ("Delete the snapshot of 10:30?", "Deletethesnapshotof10:30?"),
            ("Keep 5 minutes?", "Keep5minutes?"),
        ] {
            assert_eq!(without_animation(text), expected, "{text}");
        }
    }

    #[test]
    fn an_answer_is_for_the_question_that_it_names() {
        for (text, other, expected) in [
            ("/ Go? [y/N]", "- Go? [y/N]", true),
            ("Go...", "Go.", true),
            ("Go (9s)", "Go (8s)", false),
            ("Delete ./build? [y/N]", "Delete /build? [y/N]", false),
            ("Keep 5 minutes?", "Keep 500 minutes?", false),
            ("Restore 10:30? [y/N]", "Restore 11:30? [y/N]", false),
            ("|", "/", false),
        ] {
            assert_eq!(is_same_except_signs(text, other), expected, "{text}");
        }
    }

    #[test]
    fn a_sign_at_the_end_is_one_character() {
        assert_eq!(without_last_sign("Go? [y/N] | "), Some("Go? [y/N]"));
        assert_eq!(without_last_sign("Go?  ⠙"), Some("Go?"));
        for text in ["Go?|", "Go?", "Go? --", "Go? >", "|"] {
            assert_eq!(without_last_sign(text), None, "{text}");
        }
    }
}
