//! Lists that ask whatever is shown beside them, and the logs and leftovers that look like them.

use super::*;

/// Menus with a marked choice as programs draw them, each behind its question.
const MENUS: &[&str] = &[
    // Claude Code.
    "Would you like to go on? <-  Would you like to go on?\n ❯ 1. Yes\n   2. Yes, and review\n   3. No (esc)",
    "Do you want to proceed? <- ╭──────────────────────────────╮\n│ Bash command                 │\n│   rm -rf build               │\n│ Do you want to proceed?      │\n│ ❯ 1. Yes                     │\n│   2. No (esc)                │\n╰──────────────────────────────╯",
    "Which way to log in? <- ←  ☐ Auth  ✔ Submit  →\n\nWhich way to log in?\n\n❯ 1. JWT\n     Stateless tokens\n  2. Cookies\n     Kept on the server\n  3. Type something.",
    // Codex.
    "Would you like to run the following command? <-   Would you like to run the following command?\n\n  $ touch x\n\n› 1. Yes, proceed (y)\n  2. Yes, and don't ask again (a)\n  3. No (esc)",
    // Gemini CLI.
    "Allow execution of: 'ls'? <- │ Allow execution of: 'ls'?          │\n│                                    │\n│ ● 1. Yes, allow once               │\n│   2. Yes, allow always             │\n│   3. No, suggest changes (esc)     │\n╰────────────────────────────────────╯",
    // Ink's select, inquirer, clack, gum, dialoguer, huh, survey, bubbletea.
    "Which kit? <- Which kit?\n❯ Vue\n  React",
    "Pick a stack <- Pick a stack\n\n❯ Vue\n  React",
    "Pick a stack <- ? Pick a stack\n❯ Vue\n  React",
    "Pick a stack <- ◆  Pick a stack\n│  ● Vue\n│  ○ React",
    "Choose: <- Choose:\n> Vue\n  React",
    "Pick a stack <- ? Pick a stack ›\n❯ Vue\n  React",
    "Pick a stack <- ┃ Pick a stack\n┃ > Vue\n┃   React",
    "Choose a stack: <- ? Choose a stack:  [Use arrows to move, type to filter]\n> Vue\n  React",
    "What should we buy at the market? <- What should we buy at the market?\n\n> [ ] Carrots\n  [x] Celery",
    "Which kit do you use? <-   Which kit do you use?\n❯ Vue\n  React",
    "Which model? <- Which model?\n→ small\n  large",
    "Quick safety check: Is this a project you trust? (Like your own code, or work from <-  Quick safety check: Is this a project you trust? (Like your own code, or work from\n your team.)\n\n Security guide\n\n ❯ 1. Yes, I trust this folder\n   2. No, exit",
    "Select Model and Effort <-   Select Model and Effort\n  Access legacy models by running codex -m <model_name>\n\n› 1. small (current)  The fast one\n  2. large            The slow one",
    "Install? <- ◆  Install?\n│  ● Yes / ○ No\n└",
    "Pick a stack <- ◆  Pick a stack\n│  ◻ Vue\n│  ◼ React\n└",
];

/// What stands below menus.
const ENDINGS: &[&str] = &[
    "▮",
    "\n▮",
    "Esc to cancel▮",
    "\nctrl-g to edit in vim\n▮",
    "\nctrl-g to edit in vim▮",
    "\nTip: use /help\n▮",
    "\n~/src/app (main)\n▮",
    "\n/srv/app/src/main.rs\n▮",
    "\n? for shortcuts▮",
    "\n1,204 tokens\n▮",
    "\n↑ 1.2k tokens · $0.12 · 42%▮",
    "42%▮",
    "\n[=====>     ] 42%\n▮",
    "\n✻ Thinking… (esc to interrupt · 9s)\n▮",
    "\nesc to interrupt\n▮",
    "\nPress q to quit.\n▮",
    "\n  ⏵⏵ auto mode on (shift+tab to cycle)              99% context left\n▮",
    "\nOne tip that is so long\nthat it goes on\nin three rows\n\nmain ✓  3 files\n▮",
    "\n\n\n\n\n\n\n\n v1.2.3   main   10:30:01▮",
    "\n ──────────────────\n  gpt-5 · /srv/app\n▮",
    "\n Context: 12% used\n Cost:    $0.10\n▮",
    "\n[server] GET /a 200\n▮",
];

#[test]
fn a_list_with_a_marked_choice_asks_whatever_is_below_it() {
    let mut wrong = Vec::new();
    for menu in MENUS {
        let (question, menu) = menu.split_once(" <- ").unwrap();
        for ending in ENDINGS {
            for (above, is_alternate) in [
                ("", false),
                ("● I have read the file.\n  12 tests\n\n", false),
                ("", true),
            ] {
                let text = format!("{above}{menu}\n{ending}");
                let asked = judged(&text, is_alternate, &polls_keys("node"));
                let asked = asked.map(|found| found.prompt.text);
                if asked.as_deref() != Some(question) {
                    wrong.push(format!("{text}\n{asked:?}\n"));
                }
            }
        }
    }
    let n = wrong.len();
    assert!(wrong.is_empty(), "{n}\n{}", wrong.join("\n"));
}

#[test]
fn a_list_above_something_newer_is_no_question() {
    let menu = "Would you like to go on?\n❯ 1. Yes\n  2. No";
    let kits = "Which kit?\n❯ Vue\n  React";
    let agent = |newer: &str| {
        format!(
            "{newer}\n\n╭──────────────╮\n│ >            │\n╰──────────────╯\n  ? for shortcuts\n▮"
        )
    };
    let screens = [
        // Something newer is typed into.
        format!("{menu}\n\nCreated app\n$ ▮"),
        format!("{menu}\n\nCreated app\nme@host:~/app$ ▮"),
        format!("{menu}\n\nCreated app\n> ▮"),
        agent(&format!("{menu}\n\n● Created app")),
        agent(kits),
        format!("{menu}\n\n• Created app\n\n› Explain this code base\n\n  100% context left · ? for shortcuts\n▮"),
        // What a user has typed into an agent is marked, too.
        agent("● Shall I go on?\n\n> yes please do\n  and also test"),
        agent("● Shall I go on?\n\n> yes please do\n  and also test\n\n✻ Thinking… (9s · esc to interrupt)"),
        agent("● Shall I go on?\n  1. Yes\n  2. No"),
        agent(""),
        // The log of a server.
        format!("{kits}\n\n  VITE v5  ready in 300 ms\n\n  ➜  Local:   http://localhost:5173/\n  ➜  press h + enter to show help\n▮"),
        format!("{menu}\n\n[nodemon] watching path(s): *.*\n[nodemon] watching for changes\n▮"),
        format!("{kits}\n\nWatch Usage: Press w to show more.\n▮"),
        format!("{kits}\n\nbuilt in 3 ms\nPress r to reload, q to quit\n▮"),
        // What compilers quote.
        "error: Did you mean 'y'?\n\n  1 | import a\n> 2 | x()\n    | ^\n  3 | y()\n▮".to_owned(),
        "Which kit?\n> 2 | x()\n  3 | y()\n▮".to_owned(),
        "SyntaxError: Unexpected token\n> 2 │ x()\n  3 │ y()\nbuilt\n▮".to_owned(),
        " FAIL  a.test.ts > adds\nAssertionError: expected 1 to be 2\n ❯ src/a.test.ts:5:18\n   ❯ run src/b.ts:1:2\n\n Tests  1 failed\n▮".to_owned(),
        " ❯ src/a.test.ts (2 tests | 1 failed)\n   ✓ adds\n   × divides\n\n Duration 3 ms\n▮".to_owned(),
        // Help, branches, commits, arrows, quotes.
        "Commands:\n> build\n  test\nSee the docs\n▮".to_owned(),
        "* main\n  dev\n2 branches\n▮".to_owned(),
        "Branches:\n* main\n  dev\n2 branches\n▮".to_owned(),
        "What changed?\n* a1b2 one\n* c3d4 two\n  more\ndone\n▮".to_owned(),
        "Which ports?\n→ 3000\n→ 3001\n  3002\nready\n▮".to_owned(),
        "> app@1.0.0 dev\n> vite\n\nready\n▮".to_owned(),
        "Plans\n❯ Free\n  Pro\nbuilt in 3 s\n▮".to_owned(),
    ];
    let found = |text: &String| judged(text, false, &polls_keys("node"));
    let wrong = screens
        .iter()
        .filter_map(|text| Some((text, found(text)?.prompt.text)));
    assert_eq!(wrong.collect::<Vec<_>>(), []);
}

#[test]
fn a_list_is_known_by_what_reads_the_terminal() {
    let text = r"Would you like to go on?\n❯ 1. Yes\n  2. No\n\nTip: use /help\n▮";
    for (words, found) in [
        ("polls keys", "Menu~ Would you like to go on?"),
        ("works keys", "-"),
        ("hidden keys", "-"),
        ("polls", "-"),
    ] {
        check_terminals(&format!("{words} node :: {text} => {found}"));
    }
    // It may only have been printed.
    let text = text.replace(r"\n", "\n");
    assert_eq!(find(&with_cursor(&text, false)), None);
}

#[test]
fn the_last_line_of_a_log_is_no_question_of_what_takes_keys() {
    let threaded = terminal("reads keys threads server");
    let asked = |text: &str, width: u32, terminal: &TtyEvidence| {
        let screen = Screen {
            width: Some(width),
            ..with_cursor(text, false)
        };
        let found = judge(&screen, Some(terminal), &UserRules::default()).found;
        found.map(|found| (found.prompt.text, found.still_for))
    };
    for line in [
        "error: no export 'x' in ./a. Did you mean 'y'?",
        // Only its last row has the form of a question.
        "error: no export 'defaultWidth' in this one\nof your files. Remove it?",
    ] {
        let text = format!("ready on 5173\n{line}\n▮");
        for terminal in [&polls_keys("node"), &threaded] {
            assert_eq!(asked(&text, 43, terminal), None, "{text}");
        }
    }
    for line in [
        "Overwrite a.txt?",
        "Go on? [y/N]",
        "Press any key to continue",
    ] {
        let text = format!("ready on 5173\n{line}\n▮");
        let found = asked(&text, 43, &polls_keys("node"));
        let expected = Some((line.to_owned(), LOG_STILL));
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_list_that_was_cleared_into_the_history_does_not_ask() {
    let shown = |top| Screen {
        top: Some(top),
        cursor: Some(CursorPosition { x: 0, y: 4 }),
        ..screen("Overwrite the file?\n❯ Yes\n  No\ndone\n")
    };
    let asks = |top| {
        let judgement = judge(
            &shown(top),
            Some(&polls_keys("node")),
            &UserRules::default(),
        );
        judgement.found.is_some()
    };
    assert!(asks(0));
    assert!(!asks(3));
    assert_eq!(rows_if_keys_are_read(&shown(0)), Some(0..3));
    assert_eq!(rows_if_keys_are_read(&shown(3)), None);
}
