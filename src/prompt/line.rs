//! What one line asks for, by its shape.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use crate::model::PromptKind;

/// What a line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) kind: PromptKind,
    pub(super) secret: bool,
    /// Whether the line alone says so; else it takes a cursor that waits right behind it.
    pub(super) is_plain: bool,
    /// What of the line says so, as `explain` names it.
    pub(super) rule: &'static str,
}

/// A pattern that is compiled at its first use, whatever the case of the letters.
pub(super) fn pattern(text: &str) -> Regex {
    RegexBuilder::new(text)
        .case_insensitive(true)
        .size_limit(4 << 20)
        .build()
        .expect("a constant pattern compiles")
}

macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)*) => {
        $($(#[$doc])* static $name: LazyLock<Regex> = LazyLock::new(|| pattern($text));)*
    };
}

patterns! {
    /// `[Y/n]`, `([y]/n)?`, `(yes/no/[fingerprint])`, `[y,n,q]?`, `[J/n]:`: choices at the end of
    /// the line, then perhaps a default.
    CHOICES = concat!(
        r"[\[(<]\s*(?P<choices>[\[(]?[\p{L}?!*][\p{L}\d_'?]{0,14}[\])]?[\p{L}']{0,15}",
        r"(?:\s*(?:[/|,;]|\s(?:or|oder|ou|o)\s)\s*[\[(]?[\p{L}?!*\d][\p{L}\d_'? ]{0,14}[\])]?[\p{L}']{0,15})+)",
        r"\s*[\])>](?:\s*[\[(][^\[\]()]{0,40}[\])])?\s*[?？:：>›»]*$",
    );
    /// `y/n`, `yes or no` without brackets, at the end.
    BARE_CHOICES = r"(?:^|[\s?,])(?:y/n|yes/no|y or n|yes or no)\s*[?:>]*$";
    /// `(Y)es / (N)o / (A)lways`, `[y]es, [n]o`, each with the letter to type marked.
    LETTERS = r"[\[(]\p{L}[\])]\p{L}*.{0,20}[\[(]\p{L}[\])]\p{L}*.{0,60}[?:>.\])]\s*(?:[\[(][^\[\]()]{0,40}[\])])?\s*[?:]?$";
    LETTER = r"[\[(]\p{L}[\])]";
    YES = r"(?:^|[^\p{L}])(?:y|yes|j|ja|o|oui|s|si|sí|sim|д|да|t|tak|n|no|nein|non|não|nie)(?:[^\p{L}]|$)";
    SECRET = concat!(
        r"(?:\bpass(?:word|phrase|code|wd)?\b|\bpass phrase\b|\bpin\b|\bsecret\b|\btoken\b|\botp\b|\bone-time (?:code|password)\b|\bmfa code\b",
        r"|\bmot de passe\b|\bphrase (?:de passe|secrète)\b|passwort|kennwort|passphrase|contraseña|\bclave\b|\bsenha\b|\bhasło\b|wachtwoord|lösenord|adgangskode|salasana|parola|jelszó|heslo|şifre|пароль|密码|密碼|パスワード|암호|비밀번호)",
        r"(?:[^?:]|:\S){0,80}[:：]\s*(?:\[[^\]]*hidden[^\]]*\])?$|\[(?:input is )?hidden\]$|will (?:be hidden|not be (?:shown|echoed))\)?\s*:?$",
    );
    DEBUGGER = concat!(
        r"^\s*(?:\([\w.-]*(?:db|dbg|dlv|byebug|trepan\w*|rr|delve)\+*(?::\d+)?\)",
        r"|(?:i?pdb\+*|bpdb|gdb|lldb|jdb|rdb|rdbg|bashdb|zshdb|pudb|kdb|byebug|debug|db)\s?(?:[<(\[]+\d+[>)\]]+|:\d+)?>?|main\[\d+\])$",
    );
    /// `Press Enter to continue`, `Hit any key`; single letters are hints of programs at work.
    KEY = concat!(
        r"\b(?:press|hit|strike|tap|push)\b(?:\s+(?:the|a|an|any))*\s*[\[<(\x22'`]*",
        r"(?:enter|return|any key|key|space(?: ?bar)?|any other key)\b[^.:;]{0,8}",
    );
    /// What a key of a program at work does: no question.
    AT_WORK = r"\bto\s+(?:trigger|rerun|re-run|run|restart|reload|show|quit|exit|stop|toggle|interrupt|hide|pause|detach|refresh)\b";
    KEY_LINE = r"^\W*(?:please,?\s+)?(?:press|hit|strike|tap)\b.{0,80}$";
    /// `Type 'yes' to go on:`, `Press y|Y for Yes, any other key for No:`.
    TYPE_YES = r"\b(?:type|enter|press|answer)\b.{0,20}\b(?:y|yes)\b.{0,60}[:：>]$";
    REQUEST = r"^\W*(?:please\s+)?(?:paste|enter|type|input|provide)\b.{0,100}\b(?:below|here)\W*$";
    QUESTION = r"[\p{L}\d)\]'\x22’”»>*][\s\u{a0}]?[?？;]$|[？]$|^\?$|\p{L}[?？][:：]$";
    /// A question and the answer that is taken when none is typed: `Is this OK? (yes)`.
    DEFAULTED = r"[?？]\s*[\[(][^\[\]()]{1,60}[\])]\s*[:：>›]*$";
    DEFAULTED_FIELD = r"[:：]\s*[\[(][^\[\]()]{0,60}[\])]$";
    FIELD = r"[\p{L}\d)\]'\x22’»>?][\s\u{a0}]?[:：]$";
    CHOOSE_FIELD = r"\b(?:select|selection|choose|choice|option|pick)\b";
    CHOOSE = r"\b(?:select|selection|choose|choice|option|pick|which|number)\b";
    YES_OR_NO = r"^\W*(?:[\w.-]+: )?(?:are|is|do|does|did|would|will|should|shall|can|may|have|has|was|were|ok|okay|continue|proceed|overwrite|replace|remove|delete|accept|apply|install|launch|send|save|retry|try|confirm|set up|create|update|upgrade|abort|ignore|really|allow|trust)\b";
    /// Progress and logs leave the cursor behind a colon too.
    NO_FIELD = concat!(
        r"^\W*(?:\p{L}+ing\b|(?:error|warn(?:ing)?|info|debug|note|notice|trace|fatal|hint|usage|step|remote|stderr|stdout|time|total|status|progress|done|result|output|elapsed|eta)\b)",
        r"|\d%|\d{2}:\d{2}:\d{2}|^\W*\d{4}-\d{2}-\d{2}|^\W*\{|level=|://[^\s'\x22]*:$",
    );
    /// A word or two that invite to type, before a mark: `What now>`.
    INVITE = r"^\W{0,4}\p{L}[\p{L}'’]*(?:\s+[\p{L}'’]+)+\s?[>›]$";
    /// What the usual lines end with that ask without any mark.
    UNMARKED = r"(?:\bconfirm|\bproceed|\bselect an option|\bchoice|\bare you sure)$";
}

/// Returns what the text of a row asks for; `None` when it asks for nothing.
pub(super) fn asks(text: &str) -> Option<Ask> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let ask = |kind, rule| {
        Some(Ask {
            kind,
            secret: false,
            is_plain: true,
            rule,
        })
    };
    let weak = |kind, rule| {
        Some(Ask {
            kind,
            secret: false,
            is_plain: false,
            rule,
        })
    };
    if DEBUGGER.is_match(text) {
        return ask(PromptKind::Debugger, "debugger prompt");
    }
    if SECRET.is_match(text) && !NO_FIELD.is_match(text) {
        return Some(Ask {
            kind: PromptKind::Password,
            secret: true,
            is_plain: true,
            rule: "asks for a secret",
        });
    }
    if let Some(kind) = choices(text) {
        return ask(kind, "choices behind the question");
    }
    if TYPE_YES.is_match(text) {
        return ask(PromptKind::Confirm, "asks to type yes");
    }
    if is_key(text) {
        return ask(PromptKind::Key, "asks for a key");
    }
    if DEFAULTED.is_match(text) || (QUESTION.is_match(text) && !text.ends_with(';')) {
        let is_url = text.rsplit(' ').next().is_some_and(|w| w.contains("://"));
        return if is_url {
            None
        } else {
            ask(kind_of_question(text), "question mark")
        };
    }
    if UNMARKED.is_match(text) {
        return ask(PromptKind::Confirm, "usual words");
    }
    if (FIELD.is_match(text) || DEFAULTED_FIELD.is_match(text)) && !NO_FIELD.is_match(text) {
        let kind = if CHOOSE_FIELD.is_match(text) {
            PromptKind::Menu
        } else {
            PromptKind::Text
        };
        // `Choose a colour:` says so by itself.
        return if kind == PromptKind::Menu {
            ask(kind, "asks to choose")
        } else {
            weak(kind, "colon before the cursor")
        };
    }
    if INVITE.is_match(text) {
        return weak(PromptKind::Menu, "words before the cursor");
    }
    None
}

/// Whether a line asks to type something on the next one: `paste the token below`.
pub(super) fn is_request(text: &str) -> bool {
    REQUEST.is_match(text.trim())
}

/// Whether a line asks for a key, wherever the cursor is: programs often end that line.
pub(super) fn is_key_line(text: &str) -> bool {
    KEY_LINE.is_match(text.trim()) && is_key(text)
}

fn is_key(text: &str) -> bool {
    KEY.is_match(text) && !AT_WORK.is_match(text) && !text.trim_start().starts_with(['›', '>'])
}

/// Returns the kind of the choices that the line ends with.
fn choices(text: &str) -> Option<PromptKind> {
    if let Some(found) = CHOICES.captures(text) {
        let choices = &found["choices"];
        let n = choices.split(['/', '|', ',', ';']).count();
        let is_count = choices
            .chars()
            .all(|c| c.is_ascii_digit() || !c.is_alphanumeric());
        if is_count {
            return None;
        }
        let is_confirm = YES.is_match(choices) && n <= 3;
        return Some(if is_confirm {
            PromptKind::Confirm
        } else {
            PromptKind::Menu
        });
    }
    if BARE_CHOICES.is_match(text) {
        return Some(PromptKind::Confirm);
    }
    let letters = LETTER.find_iter(text).count();
    (letters >= 2 && LETTERS.is_match(text)).then_some(if letters == 2 {
        PromptKind::Confirm
    } else {
        PromptKind::Menu
    })
}

fn kind_of_question(text: &str) -> PromptKind {
    if YES_OR_NO.is_match(text) || text.contains("(yes)") || text.contains("(no)") {
        PromptKind::Confirm
    } else if CHOOSE.is_match(text) {
        PromptKind::Menu
    } else if text.to_lowercase().contains("continue") {
        PromptKind::Confirm
    } else {
        PromptKind::Text
    }
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
            ("Overwrite (y/n)?", Confirm),
            ("Is this ok [y/N]:", Confirm),
            ("Möchten Sie fortfahren? [J/n]", Confirm),
            ("Proceed ([y]/n)?", Confirm),
            ("Overwrite it (y or n)?", Confirm),
            ("Continue connecting (yes/no/[fingerprint])?", Confirm),
            ("Assume -R? [n]", Text),
            ("Is this OK? (yes)", Confirm),
            ("(1/1) Stage this hunk [y,n,q,a,d,e,p,?]?", Menu),
            ("replace a.txt? [y]es, [n]o, [A]ll, [N]one, [r]ename:", Menu),
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
            ("Press any key to continue . . .", Key),
            ("Hit RETURN:", Key),
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
            ("(gdb)", Debugger),
            ("  DB<1>", Debugger),
            ("Real name:", Text),
            ("entry point: (index.js)", Text),
        ] {
            check(text, Some(kind));
        }
    }

    #[test]
    fn statements_ask_nothing() {
        for text in [
            "",
            "building...",
            "confirmed",
            "proceeding",
            "password changed",
            "Checking password:",
            "Downloading:",
            "10% [1 curl 31.2 kB/315 kB 10%]",
            "Progress: [ 42%] [####....]",
            "Receiving objects: 100% (12/12)",
            "› Press Enter to trigger a test run.",
            "press h + enter to show help",
            "Press Ctrl-C to stop",
            "mysql>",
            "$",
            "me@host:~$",
            "2026-01-01 10:00:00 user:",
            "tests/test_a.py::test_x[y/N] PASSED",
            "https://example.org/?",
            "Done (3/4)",
        ] {
            check(text, None);
        }
    }
}
