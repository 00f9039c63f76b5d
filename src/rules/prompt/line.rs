//! What one line asks for, judged by its shape.

use std::sync::LazyLock;

use regex::Regex;

use super::words::{self, *};
use super::{choices, secret};
use crate::model::PromptKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) kind: PromptKind,
    pub(super) secret: bool,
    /// Whether the line alone shows it. Otherwise the cursor must be right behind it.
    pub(super) is_plain: bool,
    /// Which part of the line shows it, as `explain` names it.
    pub(super) rule: &'static str,
}

/// The rule of lines that end with the possible answers.
pub(super) const CHOICES_RULE: &str = "choices behind the question";

/// The rule of lines that end with a question mark.
pub(super) const MARK_RULE: &str = "question mark";

/// The rule of the questions of find and xargs.
pub(super) const COMMAND_RULE: &str = "asks whether to run a command";

/// The rule of labels: `Host name:`.
pub(super) const LABEL_RULE: &str = "colon before the cursor";

patterns! {
    plain_pattern:
    DEBUGGER = concat!(
        r"^\s*(?:\([[:word:].-]*(?:db|dbg|dlv|byebug|trepan[[:word:]]*|rr|delve)\+*(?::[0-9]+)?\)",
        r"|(?:i?pdb\+*|bpdb|lua_debug|gdb|lldb|jdb|rdb|rdbg|bashdb|zshdb|pudb|kdb|byebug|debug|db)\s?(?:[<(\[]+[0-9]+[>)\]]+|:[0-9]+)?>?|main\[[0-9]+\])$",
    );
    /// `Press Enter to continue`, `Hit any key`. Single letters are hints of programs at work.
    KEY = concat!(
        r"\b(?:press|hit|strike|tap|push)\b(?:\s+(?:the|a|an|any))*\s*[\[<(\x22'`]*",
        r"(?:enter|return|any key|key|space(?: ?bar)?|any other key)\b[^.:;]{0,8}",
        r"|\btype\s+<(?:ret|return|enter|cr)>",
    );
    /// A key that decides something: `Press y to accept the licence`, `any other key to go on`. A
    /// program at work also names the keys that end it or skip a step.
    DECISION = concat!(
        r"\b(?:press|hit|strike|tap|push)\s+[\x22'`\[(<]?[[:word:]][\x22'`\])>]?\s+(?:to\s+(?:accept|agree|allow|approve|confirm|continue|proceed|go on|overwrite|replace|install)|for\s+(?:yes|no))\b",
        r"|\bany (?:other )?key to (?:continue|proceed|go on|cancel|abort|skip)\b",
    );
    /// What a key of a program at work does: not a question.
    AT_WORK = r"\bto\s+(?:trigger|rerun|re-run|run|restart|reload|show|quit|exit|stop|toggle|interrupt|hide|pause|detach|refresh)\b";
    /// `Type 'yes' to go on:`, `Press y|Y for Yes, any other key for No:`.
    TYPE_YES = r"\b(?:type|enter|press|answer)\b.{0,20}\b(?:y|yes)\b.{0,60}[:：>]$";
    /// `Which port?` is not included: it asks for a choice only where there is a list.
    CHOOSE = r"\b(?:select|selection|choose|choice|option|pick)\b";
    /// `< rm ... ./a > ?`, `rm a?...`: find and xargs ask whether to run a command.
    COMMAND = r"^< .+ > \?$|\?\.\.\.$";
    /// `[1..3]`, the end of `Enter selection (default: 1) [1..3]`.
    RANGE = r"[\[(][0-9]+\s*(?:\.\.|-|–|/)[0-9./-]*[0-9][\])]$";
    /// Common endings of lines that ask without a mark.
    UNMARKED = r"(?:\bconfirm|\bproceed|\bselect an option|\bchoice|\bare you sure)$";
}

patterns! {
    pattern:
    QUESTION = r"[\p{L}\p{M}་\d)\]'\x22’”»>*][\s\u{a0}]?[?？؟;]$|[？؟]$|^\?$|[\p{L}\p{M}][?？؟][:：៖]$";
    /// A question and the answer used when none is typed: `Is this OK? (yes)`.
    DEFAULTED = r"[?？]\s*[\[(][^\[\]()]{1,60}[\])]\s*[:：>›]*$";
    DEFAULTED_FIELD = r"[:：]\s*[\[(][^\[\]()]{0,60}[\])]$";
    FIELD = r"[\p{L}\p{M}་\d)\]'\x22’»>?][\s\u{a0}]?[:：៖]$";
    /// `Press any key` in languages with other words for it.
    FOREIGN_KEY = concat!(
        r"按(?:下|住)?\s*(?:任意|任何|回车|空格|enter|return)|任意のキー|何かキー|(?:enter|リターン|エンター)キー?を押",
        r"|아무 키나|(?:enter|엔터)\s?키?를? ?누르|beliebige[nr]? taste|eingabetaste|enter drücken",
        r"|(?:appuyez|pressez|appuyer) sur (?:une touche|n'importe quelle touche|entrée|la touche)",
        r"|(?:presion[ae]|puls[ae]|oprima)\s(?:cualquier tecla|una tecla|enter|intro)|pressione (?:qualquer tecla|enter)",
        r"|prem(?:i|ere|ete) (?:un tasto|invio|enter)|нажмите (?:любую|enter|клавишу)|naciśnij (?:dowolny|enter)",
        r"|devam etmek için|druk op een toets|tryck på (?:valfri|enter)|nhấn (?:phím|enter)|กด(?:ปุ่ม|แป้น)?ใด|कोई (?:भी )?कुंजी",
    );
}

/// Returns what the text of a row asks for; `None` when it asks for nothing.
pub(super) fn asks(text: &str) -> Option<Ask> {
    let text = text.trim();
    if text.is_empty() || is_of_spinner(text) {
        return None;
    }
    let plain_text = &*plain(text);
    let ask = |kind, is_plain, rule| {
        Some(Ask {
            kind,
            secret: kind == PromptKind::Password,
            is_plain,
            rule,
        })
    };
    if DEBUGGER.is_match(plain_text) {
        return ask(PromptKind::Debugger, true, "debugger prompt");
    }
    if let Some(before) = secret::unmasked(text)
        && asks(before)
            .is_some_and(|ask| matches!(ask.kind, PromptKind::Text | PromptKind::Password))
    {
        return ask(PromptKind::Password, true, "what is typed is masked");
    }
    if secret::is_label(text) && !words::is_progress(text) {
        return ask(PromptKind::Password, true, "asks for a secret");
    }
    if let Some((kind, is_plain)) = choices::offered(text) {
        return ask(kind, is_plain, CHOICES_RULE);
    }
    if TYPE_YES.is_match(plain_text) {
        return ask(PromptKind::Confirm, true, "asks to type yes");
    }
    if is_key(text) || is_foreign_key(text) {
        return ask(PromptKind::Key, true, "asks for a key");
    }
    if COMMAND.is_match(plain_text) {
        return ask(PromptKind::Confirm, true, COMMAND_RULE);
    }
    if DEFAULTED.is_match(text) || (QUESTION.is_match(text) && !text.ends_with(';')) {
        let is_url = text.rsplit(' ').next().is_some_and(|w| w.contains("://"));
        return if is_url {
            None
        } else {
            ask(kind_of_question(text), true, MARK_RULE)
        };
    }
    if UNMARKED.is_match(plain_text) {
        return ask(PromptKind::Confirm, true, "usual words");
    }
    if (FIELD.is_match(text) || DEFAULTED_FIELD.is_match(text)) && !words::is_progress(text) {
        // `Choose a colour:` shows it by itself.
        return if CHOOSE.is_match(plain_text) {
            ask(PromptKind::Menu, true, "asks to choose")
        } else if words::is_report(text) {
            None
        } else {
            ask(PromptKind::Text, false, LABEL_RULE)
        };
    }
    let (verb, _) = split_word(after_please(from_first_word(text)));
    if is_one_of(verb, "enter select choose type pick") && RANGE.is_match(plain_text) {
        return ask(PromptKind::Menu, false, "asks to choose from a range");
    }
    if is_invitation(text) {
        return ask(PromptKind::Menu, false, "words before the cursor");
    }
    None
}

/// Returns what a line asks for whose answer is begun, by the program or by typing:
/// `Branch: main`; and the text that asks.
pub(super) fn asks_before_answer(text: &str) -> Option<(&str, Ask)> {
    let ends = text.char_indices().filter(|(_, c)| c.is_whitespace());
    ends.map(|(end, _)| &text[..end])
        .filter(|before| before.ends_with([':', '?', ']', ')', '：', '？']))
        .filter(|before| before.contains(char::is_alphanumeric))
        .find_map(|before| Some((before, asks(before)?)))
}

/// Whether a line asks for input on the next line: `paste the token below`.
pub(super) fn is_request(text: &str) -> bool {
    const DISTANCE: usize = 100;
    let (verb, rest) = split_word(after_please(from_first_word(text)));
    let rest = rest.trim_end_matches(|c| !is_of_word(c));
    let (between, place) = split_last_word(rest);
    is_one_of(verb, "paste enter type input provide")
        && is_one_of(place, "below here")
        && between.chars().count() <= DISTANCE
}

/// Whether a line begins as one of a program that shows with a turning sign that it is at work.
fn is_of_spinner(text: &str) -> bool {
    let mut chars = text.chars();
    let is_sign = |c| matches!(c, '◐' | '◓' | '◑' | '◒' | '\u{2800}'..='\u{28ff}');
    chars.next().is_some_and(is_sign) && chars.next() == Some(' ')
}

/// Whether a line orders to type something: `Enter your query:`, `Paste the key:`.
pub(super) fn is_order(text: &str) -> bool {
    const ARTICLES: &str = "a an the your one some any another";
    const LENGTH: usize = 80;
    let text = text.trim();
    let (verb, rest) = split_word(after_please(text));
    let (next, _) = split_word(rest.trim_start());
    let is_verb = is_one_of(verb, "enter specify provide paste")
        || (is_one_of(verb, "type choose select pick") && is_one_of(next, ARTICLES));
    is_verb
        && rest.starts_with(' ')
        && text.ends_with([':', '：'])
        && text.chars().count() <= LENGTH
}

/// Whether a line asks for a key, wherever the cursor is: programs often end that line.
pub(super) fn is_key_line(text: &str) -> bool {
    const LENGTH: usize = 80;
    let text = text.trim();
    if text.chars().count() <= LENGTH && is_foreign_key(text) {
        return true;
    }
    let (verb, rest) = split_word(after_please(from_first_word(text)));
    is_one_of(verb, "press hit strike tap") && rest.chars().count() <= LENGTH && is_key(text)
}

fn after_please(text: &str) -> &str {
    let (word, rest) = split_word(text);
    let rest = rest.strip_prefix(',').unwrap_or(rest);
    let is_please = is_one_of(word, "please") && rest.starts_with(char::is_whitespace);
    if is_please { rest.trim_start() } else { text }
}

/// One or two words that ask for input, before a mark: `What now>`.
fn is_invitation(text: &str) -> bool {
    const FIRST: &str =
        "what which who where when how why enter type select choose pick give say your please new";
    const MARKS: usize = 4;
    let Some(text) = text.strip_suffix(['>', '›']) else {
        return false;
    };
    // At most one space is before the mark.
    let text = text.strip_suffix(char::is_whitespace).unwrap_or(text);
    let start = from_first_word(text);
    let marks = &text[..text.len() - start.len()];
    let mut words = start.split_whitespace();
    let is_first = words.next().is_some_and(|word| is_one_of(word, FIRST));
    let mut others = words.peekable();
    is_first
        && others.peek().is_some()
        && others.all(|word| {
            word.chars()
                .all(|c| matches!(c, '\'' | '’') || c.is_alphabetic())
        })
        && !text.ends_with(char::is_whitespace)
        && marks.chars().count() <= MARKS
}

/// Whether a line names a key that decides something.
pub(super) fn is_decision(text: &str) -> bool {
    DECISION.is_match(&plain(text))
}

/// Whether a line names a key that ends what a program does: `Press any key to abort`.
pub(super) fn names_end_of_work(text: &str) -> bool {
    let mut words = text.split(|c| !is_of_word(c));
    words.any(|word| is_one_of(word, "abort cancel skip stop interrupt"))
}

/// Whether a line ends in a mark to type behind, directly behind a word or alone: `Token>`. The tip of
/// an arrow or of a progress bar is none.
pub(super) fn ends_in_mark(text: &str) -> bool {
    const MARKS: &[char] = &['>', '›', '»', '❯'];
    let before = text.trim_end_matches(MARKS);
    before.len() < text.len()
        && (before.is_empty()
            || before
                .ends_with(|c: char| c.is_alphanumeric() || [')', ']', '\'', '"'].contains(&c)))
}

/// Whether a line begins by asking to choose: `Select a type, press q to quit`.
pub(super) fn asks_to_choose(text: &str) -> bool {
    let (verb, rest) = split_word(after_please(from_first_word(text)));
    is_one_of(verb, "select choose pick") && rest.starts_with(' ')
}

fn is_key(text: &str) -> bool {
    let text = &*plain(text);
    let Some(found) = KEY.find(text).or_else(|| DECISION.find(text)) else {
        return false;
    };
    // Other keys are named behind a comma or an `or`.
    let rest = &text[found.start()..];
    let ends = rest.find([',', ';']).into_iter().chain(rest.find(" or "));
    let rest = &rest[..ends.min().unwrap_or(rest.len())];
    !AT_WORK.is_match(rest) && !text.trim_start().starts_with(['›', '>'])
}

/// Whether a line asks for a key in another language. What a key is for is not known there, so the
/// line must end soon behind it.
fn is_foreign_key(text: &str) -> bool {
    const BEHIND: usize = 24;
    FOREIGN_KEY
        .find(text)
        .is_some_and(|found| text[found.end()..].chars().count() <= BEHIND)
}

/// Returns the kind of answer that a question expects.
pub(super) fn kind_of_question(text: &str) -> PromptKind {
    let start = from_first_word(text);
    if is_polite(start) {
        return PromptKind::Text;
    }
    if begins_yes_or_no(start) || text.contains("(yes)") || text.contains("(no)") {
        PromptKind::Confirm
    } else if CHOOSE.is_match(&plain(text)) {
        PromptKind::Menu
    } else if text.to_lowercase().contains("continue") {
        PromptKind::Confirm
    } else {
        PromptKind::Text
    }
}

/// `May I have your name?`: polite, not a yes-or-no question.
pub(super) fn is_polite(text: &str) -> bool {
    const ASKING: &[&str] = &["may can could might will would", "i we you"];
    const WISHES: &str =
        "have get know ask see tell give enter provide specify type name say choose select";
    after_words(text, ASKING)
        .is_some_and(|text| is_one_of(split_word(after_please(text)).0, WISHES))
}

/// Whether a question begins as those that yes or no answers, perhaps behind a program's name.
pub(super) fn begins_yes_or_no(text: &str) -> bool {
    const STARTS: &str = "\
        are is do does did would will should shall can could may might have has had was were ok \
        okay continue proceed overwrite replace remove delete erase wipe discard drop clear \
        reset descend add extract accept apply install launch deploy publish send save commit \
        push merge retry try restart start stop quit exit leave confirm create update upgrade \
        abort cancel ignore skip keep include really allow trust enable disable want use fix \
        format restore reload";
    let is_start = |text: &str| {
        let (word, rest) = split_word(text);
        let next = rest.strip_prefix(' ').map_or("", |rest| split_word(rest).0);
        is_one_of(word, STARTS) || (is_one_of(word, "set") && is_one_of(next, "up"))
    };
    let behind_name = || {
        let (name, rest) = text.split_once(": ")?;
        name.chars()
            .all(|c| matches!(c, '.' | '-') || is_of_word(c))
            .then_some(rest)
    };
    is_start(text) || behind_name().is_some_and(is_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<PromptKind>) {
        assert_eq!(asks(text).map(|ask| ask.kind), expected, "{text:?}");
    }

    #[test]
    fn every_usual_question_asks() {
        use PromptKind::{Confirm, Debugger, Key, Menu, Password, Text};
        for (text, kind) in [
            ("Proceed? [y/N]", Confirm),
            ("Möchten Sie fortfahren? [J/n]", Confirm),
            ("Proceed ([y]/n)?", Confirm),
            ("Overwrite it (y or n)?", Confirm),
            ("Continue connecting (yes/no/[fingerprint])?", Confirm),
            ("Which port should be used?", Text),
            ("May I have your name?", Text),
            ("May I send a report?", Confirm),
            ("Remote path:", Text),
            ("Enter selection (default: Application) [1..3]", Menu),
            ("Press any key to log in or q to exit:", Key),
            ("Output folder:", Text),
            ("Time zone:", Text),
            ("Preferred editor:", Text),
            ("Press enter to continue, Ctrl+C to interrupt:", Key),
            ("rm a?...", Confirm),
            ("Password: ****", Password),
            ("Vault: ****", Password),
            ("(Y)es/(N)o:", Confirm),
            (
                "[O]pen Read-Only, (E)dit anyway, (R)ecover, (Q)uit, (A)bort:",
                Menu,
            ),
            ("Please confirm", Confirm),
            ("Are you sure?", Confirm),
            ("proceed", Confirm),
            ("続行しますか？", Text),
            ("Press Enter to continue", Key),
            ("Hit RETURN:", Key),
            (
                "--Type <RET> for more, q to quit, c to continue without paging--",
                Key,
            ),
            ("[sudo] password for me:", Password),
            ("[sudo] Mot de passe de alice\u{a0}:", Password),
            ("Passwort:", Password),
            ("Enter passphrase for key '/home/a/id':", Password),
            ("Password for 'https://a@b.c':", Password),
            ("Choose a colour:", Menu),
            ("Your choice:", Menu),
            ("What now>", Menu),
            ("(Pdb)", Debugger),
            ("ipdb>", Debugger),
            ("lua_debug>", Debugger),
            ("  DB<1>", Debugger),
            ("Real name:", Text),
            ("entry point: (index.js)", Text),
        ] {
            check(text, Some(kind));
        }
    }

    #[test]
    fn a_question_is_known_before_its_answer() {
        use PromptKind::{Confirm, Text};
        for (text, kind) in [
            ("Branch to deploy: main", Some(Text)),
            ("IPv4 address: 10.0.0.1", Some(Text)),
            ("Enable compression? [y/n]: n", Some(Confirm)),
            ("2026-01-01 10:00:00 user: alice", None),
            ("remote: done", None),
            ("main", None),
        ] {
            let kind_found = asks_before_answer(text).map(|(_, ask)| ask.kind);
            assert_eq!(kind_found, kind, "{text:?}");
        }
    }

    #[test]
    fn a_line_with_a_turning_sign_asks_nothing() {
        for line in ["◒  Install dependencies?", "⠹ Continue? [y/N]"] {
            assert_eq!(asks(line).map(|ask| ask.kind), None, "{line}");
        }
        assert!(asks("◆  Install dependencies?").is_some());
    }

    #[test]
    fn an_order_to_type_ends_in_a_colon() {
        for line in [
            "Enter your query:",
            "Enter the numbers, one per line:",
            "Please paste the key:",
            "Select a region:",
        ] {
            assert!(is_order(line), "{line}");
        }
        for line in [
            "Entering the loop:",
            "Select query failed:",
            "Type errors in a.ts:",
            "Enter the loop",
            "enter:",
            "remote: enter a name:",
        ] {
            assert!(!is_order(line), "{line}");
        }
    }

    #[test]
    fn statements_ask_nothing() {
        for text in [
            "building...",
            "confirmed",
            "password changed",
            "Checking password:",
            "Downloading:",
            "10% [1 curl 31.2 kB/315 kB 10%]",
            "Progress: [ 42%] [####....]",
            "Receiving objects: 100% (12/12)",
            "press h + enter to show help",
            "Press c to cancel the download",
            "Press Ctrl-C to stop",
            "mysql>",
            "$",
            "me@host:~$",
            "2026-01-01 10:00:00 user:",
            "tests/test_a.py::test_x[y/N] PASSED",
            "https://example.org/?",
            "Done (3/4)",
            "epoch 3 loss:",
            "Server ready:",
            "Took 3.2s:",
            "Files changed:",
            "Finished in 3 s:",
            "Loaded 5 modules:",
            "remote: Counting objects:",
            "remote:",
            "Total time:",
            "Press Enter to rerun, q to quit",
            "not connected>",
            "tests/test_a.py::test_b[Continue? (y/n)]",
        ] {
            check(text, None);
        }
    }
}
