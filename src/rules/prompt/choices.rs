//! The choices at the end of a line: `[Y/n]`, `(yes/no/[fingerprint])`, `[はい/いいえ]`, `accept/quit:`.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::words::{are_letters, is_mark, is_one_of, pattern, patterns};
use crate::model::PromptKind;

/// Words for yes and for no, in lower case, of two letters or more. Single letters are too
/// ambiguous (see [`LETTER_PAIRS`]).
const YES: &str = "\
    yes yep yeah ja jah oui si sí sì sim да так tak da evet ano áno igen kyllä joo taip jā ναι \
    כן نعم بله हाँ ya có ใช่ はい 是 是的 예 네";
const NO: &str = "\
    no nope nein nee non não nao нет ні не nie nu hayır ne nem ei nē nej nei όχι לא لا خیر नहीं \
    tidak không ไม่ ไม่ใช่ いいえ 否 不 不是 아니요 아니오";

/// The letters for yes and no, by language.
const LETTER_PAIRS: &str = "\
    y/n j/n o/n s/n t/n d/n a/n i/n e/h k/e y/t д/н т/н ν/ο כ/ל";

const OPENING: &str = "[(<（【［「";
const CLOSING: &str = "])>）】］」";

/// With more choices than this, a yes among them is one choice of many.
const CONFIRM_AT_MOST: usize = 3;

patterns! {
    pattern:
    SEPARATOR = r"[/|,;／｜、，]|\s(?:or|oder|ou|o)\s";
    /// `y/n`, `yes or no` without brackets, at the end.
    BARE_YES_NO = r"(?:^|[\s?,])(?:y/n|yes/no|y or n|yes or no)\s*[?:>]*$";
    /// `[1/2/3/4/5]`: numbers one after another. Two of them are more often a count.
    NUMBERS = r"[\[(]1/2/3(?:/\d{1,2})*[\])]\s*[?:：>]*$";
    /// `[Yn]`, `[yN]`, `[Ynaqdhm]`: the letters to type, glued together.
    GLUED = r"[\[(](?P<letters>yn[a-z?*]{0,8})[\])]\s*[?:：>]*$";
    /// `(Y)`, a letter to type.
    MARKED = r"[\[(]\p{L}[\])]";
    /// What ends a line with such letters.
    MARKED_END = r"[?:>.\])]\s*(?:[\[(][^\[\]()]{0,40}[\])])?\s*[?:]?$";
    /// `Assume -R? [n]`, `Fix<y>?`, `[no] >>>`: what may be the answer used when none is typed.
    DEFAULT = concat!(
        r"(?:(?:^|[?？])\s*[\[(<]\s*(?P<asked>[^\s\[\]()<>?:：]+)\s*[\])>]\s*[?:：>]*",
        r"|[\[(<]\s*(?P<ended>[^\s\[\]()<>?:：]+)\s*[\])>]\s*[?:：>]+)$",
    );
}

/// `[Y/n]`, `([y]/n)?`, `(yes/no/[fingerprint])`, `[y,n,q]?`, `（是/否）`: what may be choices in
/// brackets at the end of the line, then perhaps a default. See [`is_choice`].
static BRACKETS: LazyLock<Regex> = LazyLock::new(|| {
    const OTHER: &str = r"[^\x00-\x7f（【［「）】］」／｜、，\s]";
    pattern(&format!(
        concat!(
            r"[\[(<（【［「]\s*(?P<choices>[\[(]?[a-z?!*{OTHER}][a-z0-9_'?{OTHER}]*[\])]?[a-z'{OTHER}]*",
            r"(?:\s*(?:[/|,;／｜、，]|\s(?:or|oder|ou|o)\s)\s*[\[(]?[a-z0-9?!*/{OTHER}][a-z0-9_'? {OTHER}]*[\])]?[a-z'{OTHER}]*)+)",
            r"\s*[\])>）】］」](?:\s*[\[(][^\[\]()]{{0,40}}[\])])?\s*[?？:：>›»]*$",
        ),
        OTHER = OTHER
    ))
});

/// Returns the kind of the choices at the end of the line, and whether the line alone shows that
/// they are choices: paths are written alike.
pub(super) fn offered(text: &str) -> Option<(PromptKind, bool)> {
    if let Some(found) = in_brackets(text) {
        let choices = &found["choices"];
        let is_count = choices
            .chars()
            .all(|c| c.is_ascii_digit() || !c.is_alphanumeric());
        // `test[Go on? (y/n)]` closes more than the choices opened.
        let whole = found.get(0).map_or("", |found| found.as_str());
        let is_closed = whole.chars().filter(|c| OPENING.contains(*c)).count()
            == whole.chars().filter(|c| CLOSING.contains(*c)).count();
        return (!is_count && is_closed).then(|| (kind_of(choices), true));
    }
    if BARE_YES_NO.is_match(text) {
        return Some((PromptKind::Confirm, true));
    }
    if let Some(choices) = alone(text) {
        let are_letters = choices.split('/').all(|word| word.chars().count() == 1);
        return Some((kind_of(choices), are_letters));
    }
    if NUMBERS.is_match(text) {
        return Some((PromptKind::Menu, false));
    }
    if let Some(found) = GLUED.captures(text) {
        let letters = found["letters"].to_lowercase();
        let is_pair = letters.len() == 2;
        if is_pair || (is_each_once(&letters) && text.contains('?')) {
            return Some((kind_of_choice(is_pair), true));
        }
    }
    if let Some(found) = DEFAULT.captures(text) {
        let word = found.name("asked").or_else(|| found.name("ended"))?;
        let word = &*word.as_str().to_lowercase();
        if matches!(word, "y" | "n") || is_one_of(word, YES) || is_one_of(word, NO) {
            return Some((PromptKind::Confirm, true));
        }
    }
    marked_letters(text).map(|letters| (kind_of_choice(letters == 2), true))
}

/// Returns the choices in brackets at the end of the line, each of which is a short word.
fn in_brackets(text: &str) -> Option<Captures<'_>> {
    let mut from = 0;
    loop {
        let found = BRACKETS.captures_at(text, from)?;
        if SEPARATOR.split(&found["choices"]).all(is_choice) {
            return Some(found);
        }
        let start = found.get(0)?.start();
        from = start + text[start..].chars().next()?.len_utf8();
    }
}

/// Whether the text is a short word, perhaps with its first part in brackets. The pattern ensures
/// which ASCII characters are where.
fn is_choice(text: &str) -> bool {
    const LENGTH: usize = 15;
    let is_rest = |text: &str| {
        text.chars().count() <= LENGTH && text.chars().all(|c| c == '\'' || c.is_alphabetic())
    };
    let is_of_choice = |c: char| c.is_ascii() || c.is_alphanumeric() || is_mark(c);
    let text = text.trim();
    let text = text.strip_prefix(['[', '(']).unwrap_or(text);
    let (word, rest) = text.split_once([']', ')']).unwrap_or_else(|| {
        let end = text.char_indices().nth(LENGTH);
        text.split_at(end.map_or(text.len(), |(end, _)| end))
    });
    word.chars().count() <= LENGTH
        && word.chars().all(is_of_choice)
        && !word.starts_with(is_mark)
        && is_rest(rest)
}

/// Returns the choices of a line that has nothing else: `n/s/q>`, `accept/decline/quit:`.
fn alone(text: &str) -> Option<&str> {
    const LENGTH: usize = 12;
    const MOST: usize = 8;
    let choices = text.strip_suffix([':', '>'])?;
    let choices = choices.strip_suffix(char::is_whitespace).unwrap_or(choices);
    let count = choices.split('/').count();
    let is_word =
        |word: &str| !word.is_empty() && word.chars().count() <= LENGTH && are_letters(word);
    ((2..=MOST).contains(&count) && choices.split('/').all(is_word)).then_some(choices)
}

/// Returns how many letters to type are marked, as in `(Y)es / (N)o / (A)lways`, `[y]es, [n]o`,
/// when two of them are close and near the end.
fn marked_letters(text: &str) -> Option<usize> {
    const APART: usize = 20;
    const BEFORE_END: usize = 60;
    // Each with where the word that it begins ends.
    let marks: Vec<(usize, usize)> = MARKED
        .find_iter(text)
        .map(|found| {
            let rest = &text[found.end()..];
            let word = rest
                .find(|c: char| !c.is_alphabetic())
                .unwrap_or(rest.len());
            (found.start(), found.end() + word)
        })
        .collect();
    let is_near_end = |end: usize| {
        MARKED_END
            .find(&text[end..])
            .is_some_and(|found| text[end..end + found.start()].chars().count() <= BEFORE_END)
    };
    // Marks between two others are no further apart than these.
    let mut pairs = marks.iter().zip(marks.iter().skip(1));
    pairs
        .any(|((_, end), (start, end_of_next))| {
            text[*end..*start].chars().count() <= APART && is_near_end(*end_of_next)
        })
        .then_some(marks.len())
}

/// Whether these two words are the answers to a yes-or-no question.
pub(super) fn is_yes_and_no(one: &str, other: &str) -> bool {
    kind_of(&format!("{one}/{other}")) == PromptKind::Confirm
}

fn kind_of(choices: &str) -> PromptKind {
    let words: Vec<String> = SEPARATOR
        .split(choices)
        .map(|word| {
            word.trim_matches(|c: char| !c.is_alphanumeric())
                .to_lowercase()
        })
        .collect();
    let position_of = |word: &str| words.iter().position(|other| other == word);
    // Yes comes first, else the letters mean something else: `n/s/q`. Only `y` is unambiguous.
    let is_pair = |yes: &str, no: &str| {
        position_of(yes)
            .zip(position_of(no))
            .is_some_and(|(yes_at, no_at)| yes_at < no_at || yes == "y")
    };
    let mut letter_pairs = LETTER_PAIRS
        .split(' ')
        .filter_map(|pair| pair.split_once('/'));
    let is_confirm = YES.split(' ').any(|word| position_of(word).is_some())
        || letter_pairs.any(|(yes, no)| is_pair(yes, no));
    kind_of_choice(is_confirm && words.len() <= CONFIRM_AT_MOST)
}

/// Returns the kind of a choice, of yes or no or of something else.
pub(super) fn kind_of_choice(is_yes_or_no: bool) -> PromptKind {
    match is_yes_or_no {
        true => PromptKind::Confirm,
        false => PromptKind::Menu,
    }
}

pub(super) fn is_each_once(letters: &str) -> bool {
    letters
        .char_indices()
        .all(|(at, c)| !letters[..at].contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_and_no_are_known_in_many_languages() {
        for text in [
            "Proceed? [y/N]",
            "Continuer ? [o/N]",
            "¿Continuar? [s/n]",
            "Fortfahren? [j/N]",
            "Devam? [e/H]",
            "Продолжить? [да/нет]",
            "Продолжить? [Д/н]",
            "継続しますか？ [はい/いいえ]",
            "是否继续？（是/否）",
            "계속? [예/아니요]",
            "Continue [Yn]",
            "Remove it? [yN]",
            "Fix<y>?",
            "Assume -R? [n]",
            "[no] >>>",
            "  [no]:",
            "y/n>",
            "Save workspace image? [y/n/c]:",
        ] {
            assert_eq!(offered(text), Some((PromptKind::Confirm, true)), "{text}");
        }
    }

    #[test]
    fn other_choices_are_a_menu() {
        for (text, is_plain) in [
            ("Overwrite a? (enter \"h\" for help) [Ynaqdhm]", true),
            ("(1/2) Stage this hunk [y,n,q,a,d,j,J,g,/,e,p,?]?", true),
            ("Colour [red/green]:", true),
            ("n/s/q>", true),
            ("accept/decline/quit:", false),
            ("größer/kleiner:", false),
            ("Was nun? (ä)ndern, (l)öschen, (b)eenden?", true),
            ("どうしますか [再試行、中止、無視]", true),
            ("[1/2/3/4/5]", false),
        ] {
            assert_eq!(offered(text), Some((PromptKind::Menu, is_plain)), "{text}");
        }
    }

    #[test]
    fn text_in_brackets_is_not_always_a_choice() {
        for text in [
            "Done (3/4)",
            "checking for cc... [yes]",
            "Downloading (Mb)",
            "Read (many)",
            "src/lib.rs:",
            "Synced (Ynaqd)",
            "Build (Incomprehensibilities1/Antidisestablishmentarianism)",
            "Passed [✓/✗]",
            "Broken [\u{301}y/n]",
            "accept//quit:",
            "Copy (a) to (b) and something else than these",
            "internationalisation/localisation:",
        ] {
            assert_eq!(offered(text), None, "{text}");
        }
    }
}
