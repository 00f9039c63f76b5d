//! Whether a line that has ended asks the reader something, or is one of a log: `Overwrite a.txt?`,
//! and not `error: no export 'x'. Did you mean 'y'?` or `GET /a?b=c?`.

use std::sync::LazyLock;

use regex::Regex;

use super::line::{self, Ask};
use super::words::{
    self, after_words, from_first_word, is_of_word, is_one_of, plain, plain_pattern, split_word,
};
use crate::model::PromptKind;

/// Returns what a line asks that has ended, where it is no line of a log.
pub(super) fn asks(text: &str) -> Option<Ask> {
    let text = text.trim();
    // A debugger's prompt is before the cursor.
    let ask = line::asks(text)
        .filter(|ask| ask.is_plain && ask.kind != PromptKind::Debugger && !is_of_log(text))?;
    let is_asked = match ask.rule {
        line::MARK_RULE => is_question(text),
        line::COMMAND_RULE => false,
        _ => true,
    };
    is_asked.then_some(ask)
}

/// Whether a line that has ended is one of a log, although it may have the form of a question.
pub(super) fn is_log(text: &str) -> bool {
    let text = text.trim();
    is_of_log(text) || (line::asks(text).is_some_and(|ask| ask.is_plain) && asks(text).is_none())
}

/// Whether a line begins as those of logs do: with a time, a level, the name of what reports, a
/// request, a file, or what went wrong.
fn is_of_log(text: &str) -> bool {
    static START: LazyLock<Regex> = LazyLock::new(|| {
        plain_pattern(concat!(
            r"^[^[:word:]\[(/.]*(?:",
            // `[12:30:01]`, `12:30:01 PM`, `2026-01-01T`.
            r"[\[(]?(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}:[0-9]{2}:[0-9]{2})",
            // `[vite]`, `(node:123)`, `[1/4]`; what a user has to press or may answer is no such name.
            r"|\[[[:word:]@/.:# -]{2,40}\]\s|\(node:[0-9]+\)",
            r"|[\[(<]?(?:error|err|err!|warn|warning|info|debug|trace|fatal|critical|notice|hint|note|help|tip|log|event|wait|ready|fail|failed|failure|panic|exception|traceback|caused by|stderr|stdout)\b[\])>]?(?:\s?[:!|(\[-]|\s+-)",
            r"|(?:[[:word:]]+\s){0,2}[[:word:].]*(?:error|exception|warning|failure)(?:\s[[:word:]]{2,8})?(?:\[[[:word:]]+\])?(?:\([^)]*\))?:\s",
            r"|(?:error|warn|warning|fatal|panic)\b",
            r"|(?:npm|yarn|pnpm)\s(?:err!|error|warn|info)",
            r"|[\[(\x22]*(?:get|post|put|patch|delete|head|options|connect)\s+(?:[0-9]{3}\s+)?(?:/|https?:|[[:word:].]+:[0-9])",
            // `src/a.ts:3:1`, `a.c(3,1)`, `./src/a.js`, `/search?q=`.
            r"|[[:word:]@~./\\-]*[/.\\][[:word:]~.-]*(?::[0-9]+|\([0-9]+,[0-9]+\))|\.{0,2}/[[:word:]@]",
            r"|(?:cannot|can't|could not|couldn't|unable|failed|unexpected|unknown|unrecognized|unresolved|unsupported|missing|invalid|no such|not found|module not found|undefined)\b",
            r")",
        ))
    });
    START.is_match(&plain(text))
}

/// Whether the last sentence of a line that ends with a question mark is for the reader.
fn is_question(text: &str) -> bool {
    let (before, last) = last_sentence(text);
    let start = from_first_word(last);
    let asks_to_act = line::is_polite(start)
        || (line::begins_yes_or_no(start) && !begins_guess(start))
        || is_one_of(
            split_word(start).0,
            "ready go run ship open show rerun view",
        );
    if asks_to_act {
        // What was just built may be built again, but nobody is asked.
        return !words::is_report(before.trim_end_matches(['.', ' ']));
    }
    // Other questions are the whole line, and end with a word.
    let end = last.trim_end_matches(['?', '？', ' ']);
    let word = end.rsplit(char::is_whitespace).next().unwrap_or(end);
    let is_word = !word.contains(['/', '=', '&', '\\', '\'', '"', '`', '*', ')', ']']);
    let begins = start.starts_with(|c: char| !c.is_ascii_lowercase());
    before.is_empty() && is_word && begins && !begins_guess(start)
}

/// Returns what is before the last sentence of a line, and that.
fn last_sentence(text: &str) -> (&str, &str) {
    let body = text.trim_end_matches(['?', '？']);
    let ends = [". ", "! ", "? ", "; ", " - ", " — ", "。", "！", "？"];
    let ends = ends.iter();
    let ends = ends.filter_map(|end| Some(body.rfind(end)? + end.len()));
    let (before, last) = text.split_at(ends.max().unwrap_or(0));
    (before.trim_end(), last.trim_start())
}

/// Whether a question begins as those in which a program guesses what went wrong: `Did you mean`,
/// `Does the file exist`, `Are you missing`, `Maybe`.
fn begins_guess(text: &str) -> bool {
    const GUESSES: &str = "\
        did didn does doesn was were has hasn had have haven isn aren why maybe perhaps possibly \
        possible or and typo forgot forgotten";
    let (word, rest) = split_word(text);
    let asks_to_agree = |rest: &str| {
        let mut words = rest.split(|c| !is_of_word(c));
        words.any(|word| is_one_of(word, "ok okay correct right fine good sure ready"))
    };
    is_one_of(word, GUESSES)
        || (is_one_of(word, "is are") && !asks_to_agree(rest))
        || after_words(text, &["are", "you", "sure"]).is_some_and(|rest| {
            let (word, _) = split_word(rest);
            !is_one_of(word, "you about to we i")
        })
        || after_words(text, &["do", "you", "need have use"]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_for_the_reader() {
        for text in [
            "Continue?",
            "Continue? (y/n)",
            "Continue? [y/N]",
            "Do you want to continue?",
            "Would you like to run the app on another port instead?",
            "Port 3000 is in use. Use another one?",
            "Overwrite src/a.ts?",
            "Delete 'a.txt'?",
            "rm: remove regular file 'x'?",
            "Are you sure?",
            "Are you sure you want to delete the database?",
            "Is this OK?",
            "Is the information correct?",
            "Shall it go out?",
            "Ready to deploy?",
            "Run it now?",
            "Which port?",
            "What is your name?",
            "How many workers?",
            "Wirklich löschen?",
            "Möchten Sie fortfahren?",
            "¿Continuar?",
            "Voulez-vous continuer ?",
            "続行しますか？",
            "是否继续？",
            "Продолжить?",
            "Choose a colour:",
            "Type 'yes' to go on:",
            "[?] Deploy?",
            "? Deploy?",
            "🚀 Ship it?",
            "Delete everything? [y/N]",
            "The branch is behind. Merge it?",
            "Database exists - drop it?",
            "Press any key to continue",
        ] {
            assert!(asks(text).is_some(), "{text}");
        }
    }

    #[test]
    fn lines_of_logs_are_not() {
        for text in [
            "error: no export 'x' in ./a. Did you mean 'y'?",
            "GET /a?b=c?",
            "GET /vote?answer=[y/n]",
            "POST /api/search?q=ready? 200?",
            "127.0.0.1:5000 /a?",
            "/about?",
            "[vite] Internal server error: Failed to resolve import \"./x\" from \"src/a.js\". Does the file exist?",
            "[vite] hot updated: /src/a.vue?",
            "✘ [ERROR] Could not resolve \"react\". Did you install it?",
            "Module not found: Error: Can't resolve './b'. Did you mean './c'?",
            "ERROR in ./src/a.ts 3:1: is the loader missing?",
            " ⨯ Error: Cannot find module 'x'. Did you run npm install?",
            "src/a.ts:3:1 - error TS2304: Cannot find name 'x'. Did you mean 'y'?",
            "src/a.ts(3,1): error TS2552: Cannot find name 'x'. Did you mean 'y'?",
            "TS2582: Cannot find name 'test'. Do you need to install type definitions for a test runner?",
            "(!) Missing export \"x\" has been imported. Did you mean \"y\"?",
            "[!] RollupError: \"x\" is not exported by \"a.js\". Did you mean \"y\"?",
            "@parcel/core: Failed to resolve './b'. Did you mean './c'?",
            "[nodemon] app crashed - restart?",
            "error[E0425]: cannot find value `x` in this scope; did you mean `y`?",
            "help: a local variable with a similar name exists: `y`?",
            "warning: unused import: `std::fmt`; remove it?",
            "12:30:01 PM [vite] page reload src/a.js?",
            "[12:30:01] Starting compilation in watch mode, ok?",
            "2026-01-01T12:00:00Z INFO asked the user: continue?",
            "WARN  deprecated option, remove it?",
            "wait  - compiling /about?",
            "event - compiled client and server successfully, reload?",
            "Did you mean 'y'?",
            "Did you forget to await?",
            "Does the file exist?",
            "Is the server running on port 5432?",
            "Are you missing a comma?",
            "Are you sure it compiles?",
            "Have you installed the peer dependencies?",
            "Do you need to change your target library?",
            "Perhaps you meant 'y'?",
            "built in 3 ms. Rebuild?",
            "Compiled 12 modules in 3 ms. Reload?",
            "Unexpected token '?'?",
            "Cannot read properties of undefined. Is it null?",
            "user asked: really?",
            "expected 'x' but got 'y'?",
            "SyntaxError: Unexpected token, expected ';'?",
            "npm WARN deprecated a@1: use b instead?",
            "hmr update /src/App.tsx?",
            "fetch http://localhost:3000/api?page=2?",
        ] {
            assert!(asks(text).is_none(), "{text}");
        }
    }
}
