//! The choices at the end of a line: `[Y/n]`, `(yes/no/[fingerprint])`, `[はい/いいえ]`, `accept/quit:`.

use std::sync::LazyLock;

use regex::Regex;

use super::pattern::pattern;
use crate::model::PromptKind;

/// Words for yes and for no, in lower case, of two letters or more. Single letters are too
/// ambiguous (see [`LETTER_PAIRS`]).
const YES: &[&str] = &[
    "yes",
    "yep",
    "yeah",
    "ja",
    "jah",
    "oui",
    "si",
    "sí",
    "sì",
    "sim",
    "да",
    "так",
    "tak",
    "da",
    "evet",
    "ano",
    "áno",
    "igen",
    "kyllä",
    "joo",
    "taip",
    "jā",
    "ναι",
    "כן",
    "نعم",
    "بله",
    "हाँ",
    "ya",
    "có",
    "ใช่",
    "はい",
    "是",
    "是的",
    "예",
    "네",
];
const NO: &[&str] = &[
    "no",
    "nope",
    "nein",
    "nee",
    "non",
    "não",
    "nao",
    "нет",
    "ні",
    "не",
    "nie",
    "nu",
    "hayır",
    "ne",
    "nem",
    "ei",
    "nē",
    "nej",
    "nei",
    "όχι",
    "לא",
    "لا",
    "خیر",
    "नहीं",
    "tidak",
    "không",
    "ไม่",
    "ไม่ใช่",
    "いいえ",
    "否",
    "不",
    "不是",
    "아니요",
    "아니오",
];

/// The letters for yes and no, by language.
const LETTER_PAIRS: &[(&str, &str)] = &[
    ("y", "n"),
    ("j", "n"),
    ("o", "n"),
    ("s", "n"),
    ("t", "n"),
    ("d", "n"),
    ("a", "n"),
    ("i", "n"),
    ("e", "h"),
    ("k", "e"),
    ("y", "t"),
    ("д", "н"),
    ("т", "н"),
    ("ν", "ο"),
    ("כ", "ל"),
];

const OPENING: &str = "[(<（【［「";
const CLOSING: &str = "])>）】］」";

/// With more choices than this, a yes among them is one choice of many.
const CONFIRM_AT_MOST: usize = 3;

macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)*) => {
        $($(#[$doc])* static $name: LazyLock<Regex> = LazyLock::new(|| pattern($text));)*
    };
}

patterns! {
    /// `[Y/n]`, `([y]/n)?`, `(yes/no/[fingerprint])`, `[y,n,q]?`, `（是/否）`: choices in brackets at
    /// the end of the line, then perhaps a default.
    BRACKETS = concat!(
        r"[\[(<（【［「]\s*(?P<choices>[\[(]?[\p{L}?!*][\p{L}\p{M}\d_'?]{0,14}[\])]?[\p{L}']{0,15}",
        r"(?:\s*(?:[/|,;／｜、，]|\s(?:or|oder|ou|o)\s)\s*[\[(]?[\p{L}?!*\d/][\p{L}\p{M}\d_'? ]{0,14}[\])]?[\p{L}']{0,15})+)",
        r"\s*[\])>）】］」](?:\s*[\[(][^\[\]()]{0,40}[\])])?\s*[?？:：>›»]*$",
    );
    SEPARATOR = r"[/|,;／｜、，]|\s(?:or|oder|ou|o)\s";
    /// `y/n`, `yes or no` without brackets, at the end.
    BARE_YES_NO = r"(?:^|[\s?,])(?:y/n|yes/no|y or n|yes or no)\s*[?:>]*$";
    /// `n/s/q>`, `accept/decline/quit:` and nothing else on the line.
    BARE = r"^(?P<choices>\p{L}{1,12}(?:/\p{L}{1,12}){1,7})\s?[:>]$";
    /// `[1/2/3/4/5]`: numbers one after another. Two of them are more often a count.
    NUMBERS = r"[\[(]1/2/3(?:/\d{1,2})*[\])]\s*[?:：>]*$";
    /// `[Yn]`, `[yN]`, `[Ynaqdhm]`: the letters to type, glued together.
    GLUED = r"[\[(](?P<letters>yn[a-z?*]{0,8})[\])]\s*[?:：>]*$";
    /// `(Y)es / (N)o / (A)lways`, `[y]es, [n]o`, each with the letter to type marked.
    LETTERS = r"[\[(]\p{L}[\])]\p{L}*.{0,20}[\[(]\p{L}[\])]\p{L}*.{0,60}[?:>.\])]\s*(?:[\[(][^\[\]()]{0,40}[\])])?\s*[?:]?$";
    LETTER = r"[\[(]\p{L}[\])]";
    /// `Assume -R? [n]`, `Fix<y>?`, `[no] >>>`: the answer used when none is typed.
    DEFAULT = concat!(
        r"(?:(?:^|[?？])\s*[\[(<]\s*(?P<asked>[\p{L}\p{M}]{1,12})\s*[\])>]\s*[?:：>]*",
        r"|[\[(<]\s*(?P<ended>[\p{L}\p{M}]{1,12})\s*[\])>]\s*[?:：>]+)$",
    );
}

/// Returns the kind of the choices at the end of the line, and whether the line alone shows that
/// they are choices: paths are written alike.
pub(super) fn offered(text: &str) -> Option<(PromptKind, bool)> {
    if let Some(found) = BRACKETS.captures(text) {
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
    if let Some(found) = BARE.captures(text) {
        let choices = &found["choices"];
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
            let kind = if is_pair {
                PromptKind::Confirm
            } else {
                PromptKind::Menu
            };
            return Some((kind, true));
        }
    }
    if let Some(found) = DEFAULT.captures(text) {
        let word = found.name("asked").or_else(|| found.name("ended"))?;
        let word = word.as_str().to_lowercase();
        let word = word.as_str();
        if matches!(word, "y" | "n") || YES.contains(&word) || NO.contains(&word) {
            return Some((PromptKind::Confirm, true));
        }
    }
    let letters = LETTER.find_iter(text).count();
    (letters >= 2 && LETTERS.is_match(text)).then_some(if letters == 2 {
        (PromptKind::Confirm, true)
    } else {
        (PromptKind::Menu, true)
    })
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
    let is_confirm = YES.iter().any(|word| position_of(word).is_some())
        || LETTER_PAIRS.iter().any(|(yes, no)| is_pair(yes, no));
    if is_confirm && words.len() <= CONFIRM_AT_MOST {
        PromptKind::Confirm
    } else {
        PromptKind::Menu
    }
}

fn is_each_once(letters: &str) -> bool {
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
        ] {
            assert_eq!(offered(text), None, "{text}");
        }
    }
}
