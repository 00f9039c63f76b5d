//! Text that looks like a question and is none: prompts of shells and interpreters that wait for
//! commands, and key hints of programs that are working.

use std::sync::LazyLock;

use regex::Regex;

use super::cursor_context::is_blank;
use super::line;
use super::words::{plain, plain_pattern};
use crate::model::programs::{
    CommandReader, command_reader, is_prompt_of_command_reader, without_version,
};
use crate::model::{PromptKind, Screen, TtyEvidence};

/// How many of the last rows with text are searched for hints.
const HINT_ROWS: usize = 10;

/// Whether one of these programs follows a file and polls the terminal only to notice that it is
/// closed. It reads no input, whatever the file contains.
pub(super) fn follows_a_file(programs: &[String]) -> bool {
    is_among(programs, &["tail", "multitail"])
}

/// Programs that only copy, count or change what they read, besides those that make sums of it.
const FILTERS: &[&str] = &[
    "awk", "base32", "base64", "cat", "cmp", "column", "comm", "csplit", "cut", "dd", "diff",
    "expand", "fgrep", "fmt", "fold", "gawk", "grep", "egrep", "gunzip", "gzip", "head", "hexdump",
    "iconv", "join", "jq", "mawk", "nl", "od", "paste", "pr", "rev", "rg", "sed", "shuf", "sort",
    "split", "sponge", "tac", "tail", "tee", "tr", "ts", "tsort", "unexpand", "uniq", "wc",
    "xargs", "xxd", "xz", "zcat", "zstd",
];

/// Whether these programs only copy, count or change what they read, in a shell that waits for them.
pub(super) fn copy_input(programs: &[String]) -> bool {
    let is_filter =
        |program: &String| program.ends_with("sum") || FILTERS.contains(&program.as_str());
    let is_shell = |program: &str| command_reader(program) == Some(CommandReader::Shell);
    programs.iter().any(is_filter)
        && programs
            .iter()
            .all(|program| is_filter(program) || is_shell(program))
}

/// Whether the line has the name of one of these programs as its command, so that it is what a user has
/// typed: `$ ./copy -x`.
pub(super) fn is_command_of(line: &str, programs: &[String]) -> bool {
    let mut words = line.split([' ', '/', '|', ';', '&', '(']).skip(1);
    words.any(|word| programs.iter().any(|program| program == word))
}

/// Whether the line is what an interpreter shows while it waits for a command: at most one word,
/// and a mark.
pub(super) fn is_idle_prompt(line: &str) -> bool {
    static IDLE: LazyLock<Regex> = LazyLock::new(|| {
        plain_pattern(concat!(
            r"^(?:not connected>|(?:[0-9]+ )?\?-|>{1,3}|\.{3}|[$#%❯➜»›]|",
            r"(?:[[:word:].+-]+)?(?:\s?[\[(][^\[\]()]*[\])])?(?::[0-9]+)*[[:word:]:!*=-]*\s?[>$#%❯]|",
            r"in ?\[[0-9]+\]:|\[[0-9]+\] [[:word:]]+\([^)]*\)[>*]|[[:word:]]+(?:\s[[:word:]~-]*[:@/.][[:word:].:@~/-]*)?(?:\s?\[\(?[^\]]*\)?\])?>|",
            r"[[:word:].-]+@[[:word:].-]+[: ].*[$#%>❯]|\[[^\]]+\][$#%>])$",
        ))
    });
    let line = line.trim();
    // A letter, but also the mark of a prompt.
    matches!(line, "λ" | "Λ") || IDLE.is_match(&plain(line))
}

/// Whether an interpreter among these programs would show this line while it waits for a command:
/// it is known for such prompts, or the prompt contains its name.
pub(super) fn is_of_interpreter(line: &str, programs: &[String]) -> bool {
    let line = line.trim().to_lowercase();
    programs
        .iter()
        .any(|program| match command_reader(program) {
            Some(CommandReader::Interpreter | CommandReader::Client) => true,
            // The prompt of a shell can be anything, so it counts only with the name: `bash-5.2$`.
            Some(CommandReader::Shell | CommandReader::ShellHost) | None => {
                let bare = without_version(program);
                bare.len() >= 2 && line.starts_with(&bare.to_lowercase())
            }
        })
}

/// Whether none of these programs has a console of its own besides what it is given to run: Perl has
/// none, and the other interpreters only without a script.
pub(super) fn are_of_scripts(programs: &[String]) -> bool {
    programs.iter().all(|program| {
        let reader = command_reader(program);
        reader != Some(CommandReader::Client) || without_version(program) == "perl"
    })
}

/// Whether the line is `>`, alone or behind one word that neither names one of these programs nor
/// another program with such a prompt: a script may run a database's console (`sqlite>`).
pub(super) fn may_be_of_script(line: &str, programs: &[String]) -> bool {
    let Some(word) = line.trim().strip_suffix('>').map(str::trim_end) else {
        return false;
    };
    let mut chars = word.chars();
    chars.all(|c| c.is_alphanumeric() || "_-.".contains(c))
        && !is_prompt_of_command_reader(word)
        && !programs
            .iter()
            .any(|program| word.starts_with(without_version(program)))
}

/// Whether the line is the name of one of these programs and a colon, which a program that edits
/// lines shows while it waits for a command: `debugfs:`.
pub(super) fn is_own_name(line: &str, programs: &[String]) -> bool {
    let name = line.trim().strip_suffix(':');
    programs.iter().any(|program| name == Some(program))
}

pub(super) fn are_shells(programs: &[String]) -> bool {
    !programs.is_empty()
        && programs
            .iter()
            .all(|program| command_reader(program) == Some(CommandReader::Shell))
}

/// Whether the last rows name the keys that a program accepts while it works.
pub(super) fn has_hints(screen: &Screen) -> bool {
    has_hints_in(&screen.rows, None)
}

/// The same, where the keys that end or cancel an input are no hint: `press Ctrl-D when done`.
pub(super) fn has_hints_besides_end(screen: &Screen) -> bool {
    static END: LazyLock<Regex> = LazyLock::new(|| {
        plain_pattern(concat!(
            r"\b(?:press|hit|type|use)?\s*[\x22'`\[(<]?",
            r"(?:(?:ctrl|control) ?[-+ ] ?|\^)(?:d\b|c to (?:cancel|abort)\b)[\x22'`\])>]?",
        ))
    });
    has_hints_in(&screen.rows, Some(&END))
}

/// Whether these rows name the keys of a program that goes on working until something changes. Keys
/// that only end or interrupt a program belong to any list.
pub(super) fn has_hints_of_watcher(rows: &[String]) -> bool {
    static ENDS: LazyLock<Regex> = LazyLock::new(|| {
        plain_pattern(concat!(
            r"\b(?:esc|enter|ctrl[-+ ]?c) to (?:interrupt|stop|quit|exit|cancel)\b|\bctrl[-+ ]?d to exit\b",
            r"|\bpress\s+[^\s]+(?: (?:twice|again))?\s+(?:to|for) (?:quit|exit|cancel|abort|interrupt|close|help|stop)\b",
            r"|\b(?:quit|stop|exit)\b.{0,30}\b(?:ctrl|control)[-+ ]?c\b",
        ))
    });
    has_hints_in(rows, Some(&ENDS))
}

/// What `besides` matches is no hint.
fn has_hints_in(rows: &[String], besides: Option<&Regex>) -> bool {
    static HINT: LazyLock<Regex> = LazyLock::new(|| {
        plain_pattern(concat!(
            r"\bwatch usage\b|\bwatching for (?:file )?changes\b|\bwaiting for (?:file )?changes\b",
            r"|\bpress\s+[\x22'`\[(<]?(?:\?|(?:[[:word:]]|enter) \+ [[:word:]]+|(?:(?:ctrl|control) ?[-+ ] ?|\^)?[[:word:]])[\x22'`\])>]?\s*(?:to\b|for\b|│|\||·|$)",
            r"|\benter\s+[\x22'`]?rs[\x22'`]?|\b(?:quit|stop|exit)\b.{0,30}\b(?:ctrl|control)[-+ ]?c\b",
            r"|\bctrl[-+ ]?d to exit\b|\benter to interrupt\b|\bpress\b.{0,20}\bto trigger\b|\besc to interrupt\b|\bwatch mode\b",
            r"|\bwatch(?:ing)? (?:mode|for)\b|\bpress\b.{0,12}\bto (?:rerun|re-run|restart|reload|show help|open (?:a )?browser)\b",
        ))
    });
    let rows = rows.iter().rev().filter(|row| !is_blank(row));
    let mut rows = rows.take(HINT_ROWS);
    rows.any(|row| {
        let text = plain(row);
        let is_hint = match besides {
            Some(besides) => HINT.is_match(&besides.replace_all(&text, "")),
            None => HINT.is_match(&text),
        };
        is_hint && !line::is_decision(row) && !line::asks_to_choose(row)
    })
}

// Programs that are known by their names.

const PAGERS: &[&str] = &[
    "less", "more", "most", "pg", "man", "bat", "w3m", "mcview", "lnav",
];

const EDITORS: &[&str] = &[
    "vi", "vim", "nvim", "view", "vimdiff", "nano", "pico", "emacs", "mg", "micro", "hx", "helix",
    "kak", "joe", "jed", "ne", "mcedit", "tilde",
];

/// Programs in which a user goes through files, mail, news, appointments or commits. They do nothing
/// unless a key is pressed.
const BROWSERS: &[&str] = &[
    "nnn", "vifm", "ranger", "mc", "lf", "yazi", "joshuto", "broot", "xplr", "newsboat",
    "newsraft", "alpine", "mutt", "neomutt", "aerc", "calcurse", "ikhal", "tig", "lazygit",
    "gitui", "lynx", "elinks", "links",
];

/// Programs in which a user picks a line of their input. They need not take the whole screen.
const PICKERS: &[&str] = &[
    "fzf", "fzy", "sk", "peco", "percol", "pick", "smenu", "iselect",
];

/// Programs whose agent asks for the secret. The agent starts a program that asks on the same
/// terminal, but is not a child of theirs.
const ASK_BY_AGENT: &[&str] = &["gpg", "gpg2", "gpgsm"];

/// Whether one of the foreground programs may be waiting for a secret that its agent asks for.
pub(super) fn may_ask_by_agent(terminal: &TtyEvidence) -> bool {
    is_among(&terminal.programs, ASK_BY_AGENT)
}

/// Returns the kind for pagers, editors, browsers and pickers, which always expect input.
pub(super) fn kind_of_program(programs: &[String]) -> Option<PromptKind> {
    if is_among(programs, EDITORS) {
        Some(PromptKind::Editor)
    } else if is_among(programs, PAGERS) {
        Some(PromptKind::Pager)
    } else {
        (is_browser(programs) || is_picker(programs)).then_some(PromptKind::Menu)
    }
}

pub(super) fn is_browser(programs: &[String]) -> bool {
    is_among(programs, BROWSERS)
}

pub(super) fn is_picker(programs: &[String]) -> bool {
    is_among(programs, PICKERS)
}

fn is_among(programs: &[String], names: &[&str]) -> bool {
    let mut programs = programs.iter();
    programs.any(|program| names.contains(&program.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::screen;

    #[test]
    fn prompts_for_commands_are_idle() {
        let words = "$ # >>> ... > sqlite> mysql> app=# app=> sftp> scala> irb(main):001> irb(main):001:0> host% \
                     me@host:~/src$ ❯ iex(1)> ghci> 127.0.0.1:6379> ?-";
        let lines = [
            "MariaDB [(none)]>",
            "In [1]:",
            "[1] pry(main)>",
            "redis 127.0.0.1:6379>",
            "[me@host ~]$",
            "php >",
            "not connected>",
            "1 ?-",
        ];
        for line in words.split(' ').chain(lines) {
            assert!(is_idle_prompt(line), "{line}");
        }
        for line in ["#?", "Name:", "Go on?", "What now>", "[Y/n]", "Password:"] {
            assert!(!is_idle_prompt(line), "{line}");
        }
    }

    #[test]
    fn the_name_of_a_program_and_a_colon_is_its_prompt() {
        let programs = ["bash", "debugfs"].map(str::to_owned);
        assert!(is_own_name("debugfs: ", &programs));
        for line in ["debugfs:  open", "Name:", "debugfs", ":", "The debugfs:"] {
            assert!(!is_own_name(line, &programs), "{line}");
        }
    }

    #[test]
    fn what_ends_an_input_is_no_hint() {
        for row in [
            "Paste your diff and press Ctrl-D",
            "Type your message. Press Ctrl+D to finish.",
            "Enter the notes (press Ctrl-D to end)",
            "Enter the new name (press Ctrl+C to cancel)",
            "Enter text, press ^D to exit",
        ] {
            assert!(has_hints(&screen(row)), "{row}");
            assert!(!has_hints_besides_end(&screen(row)), "{row}");
        }
        for row in [
            "Waiting for changes to input files... (ctrl-d to exit)",
            "Press Ctrl+C to quit",
            "Press q to quit, or ctrl-d",
        ] {
            assert!(has_hints_besides_end(&screen(row)), "{row}");
        }
    }

    #[test]
    fn hints_of_programs_at_work_are_known() {
        let hints = |row: &str| has_hints(&screen(row));
        for row in [
            "  ➜  press h + enter to show help",
            " › Press f to run only failed tests.",
            "[nodemon] to restart at any time, enter `rs`",
            "Quit the server with CONTROL-C.",
            "Press Ctrl+C to quit",
            "Press q to quit",
            "Waiting for changes to input files... (ctrl-d to exit)",
            "Press [h] for more options>",
            "Press [q] to stop, [?] for help",
            "Press c to cancel",
        ] {
            assert!(hints(row), "{row}");
        }
        for row in [
            "Press Enter to continue",
            "Press any key to continue",
            "Press q to quit, any other key to go on",
            "Press 'y' to accept the licence",
            "Select a type to create a new label, press 'L' to load script file, 'Q' quits.",
            "Go on? [y/N]",
        ] {
            assert!(!hints(row), "{row}");
        }
    }
}
