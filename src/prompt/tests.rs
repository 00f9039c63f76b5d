mod lists;

use std::ops::Range;
use std::time::Duration;

use super::cursor_context::LOG_STILL;
use super::*;
use crate::model::{CursorPosition, Foreground, PromptKind, Screen, Stop, TtyEvidence, TtyUse};

fn screen(text: &str) -> Screen {
    Screen {
        rows: text.split('\n').map(str::to_owned).collect(),
        ..Screen::default()
    }
}

#[track_caller]
fn check(text: &str, expected: Option<&str>) {
    let found = find(&screen(text));
    assert_eq!(
        found.map(|found| found.prompt.text).as_deref(),
        expected,
        "{text:?}"
    );
}

/// What lines ask, `line.rs` tests; these are screens without a cursor.
#[test]
fn questions_are_found_by_their_text_alone() {
    for line in ["Proceed? [y/N]", "proceed", "[sudo] password: "] {
        check(line, Some(line.trim()));
    }
    for line in ["", "building...", "continue", "password changed"] {
        check(line, None);
    }
}

/// A screen in which `▮` marks the cursor; without it the cursor position is unknown.
fn with_cursor(text: &str, alternate: bool) -> Screen {
    use unicode_width::UnicodeWidthStr;

    let mut cursor = None;
    let mut rows = Vec::new();
    for (y, row) in text.split('\n').enumerate() {
        if let Some((before, _)) = row.split_once('▮') {
            cursor = Some(crate::model::CursorPosition {
                x: u32::try_from(before.width()).unwrap(),
                y: u32::try_from(y).unwrap(),
            });
        }
        rows.push(row.replace('▮', "").trim_end().to_owned());
    }
    Screen {
        rows: rows.into(),
        cursor,
        alternate: Some(alternate),
        top: None,
        last_lines: None,
        width: None,
        ..Screen::default()
    }
}

#[track_caller]
fn check_kind(text: &str, expected: Option<PromptKind>) {
    let judgement = judge(&with_cursor(text, false), None, &UserRules::default());
    let kind = judgement.found.as_ref().map(|found| found.prompt.kind);
    assert_eq!(kind, expected, "{text}\n{judgement:?}");
}

#[test]
fn prompts_of_many_tools_are_found_by_their_screens() {
    let screens = [
        "Confirm :: Proceed with installation? [Y/n] ▮",
        "Confirm Total size: 3 M\nIs this ok [y/N]: ▮",
        "Confirm rm: remove write-protected regular file 'x'? ▮",
        "Confirm cp: overwrite 'b'? ▮",
        "Confirm mv: replace 'b', overriding mode 0444 (r--r--r--)? ▮",
        "Confirm gzip: a.gz already exists; do you wish to overwrite (y or n)? ▮",
        "Menu replace a.txt? [y]es, [n]o, [A]ll, [N]one, [r]ename: ▮",
        "Confirm /root/.ssh/id_rsa already exists.\nOverwrite (y/n)? ▮",
        "Text Generating public/private rsa key pair.\nEnter file in which to save the key (/root/.ssh/id_rsa): ▮",
        "Password Enter passphrase (empty for no passphrase): ▮",
        "Password Enter same passphrase again: ▮",
        "Text package name: (app) ▮",
        "Text version: (1.0.0) ▮",
        "Text license: (ISC) ▮",
        "Confirm Is this OK? (yes) ▮",
        "Confirm Need to install the following packages:\n  create-vite@5.2.3\nOk to proceed? (y) ▮",
        "Text question name (app): ▮",
        "Text question private: ▮",
        "Text ? Project name: › ▮vite-project",
        "Menu ? Select a framework: › - Use arrow-keys. Return to submit.\n❯   Vanilla\n    Vue\n    React\n▮",
        "Menu ✔ Project name: … app\n? Select a variant: › - Use arrow-keys. Return to submit.\n❯   TypeScript\n    JavaScript▮",
        "Menu ? Where do you use GitHub?  [Use arrows to move, type to filter]\n> GitHub.com\n  Other▮",
        "Key ! First copy your one-time code: 1234-ABCD\nPress Enter to open https://github.com/login/device in your browser... ▮",
        "Key Press ENTER to open in the browser...▮",
        "Key Login at:\nhttps://www.npmjs.com/login?next=/login/cli/1\nPress ENTER to open in the browser...\n▮",
        "Password This operation requires a one-time password.\nEnter OTP: ▮",
        "Text Command (m for help): ▮",
        "Text Partition number (1-4, default 1): ▮",
        "Password Enter new UNIX password: ▮",
        "Confirm Is the information correct? [Y/n] ▮",
        "Text \tFull Name []: ▮",
        "Menu Select an editor.  To change later, run 'select-editor'.\n  1. /bin/nano        <---- easiest\n  2. /usr/bin/vim.tiny\n\nChoose 1-2 [1]: ▮",
        "Key * 0            /usr/bin/vim.basic   30        auto mode\n  1            /bin/nano            40        manual mode\n\nPress <enter> to keep the current choice[*], or type selection number: ▮",
        "Menu Select the appropriate number [1-2] then [enter] (press 'c' to cancel): ▮",
        "Password Enter password for repository: ▮",
        "Confirm Are you sure? (Type 'yes' in capital letters): ▮",
        "Password Enter passphrase for /dev/sda2: ▮",
        "Password Password for alice@EXAMPLE.ORG: ▮",
        "Text File to patch: ▮",
        "Confirm Reversed (or previously applied) patch detected!  Assume -R? [n] ▮",
        "Text What is your first and last name?\n  [Unknown]:  ▮",
        "Confirm Is CN=a, OU=b, O=c, L=d, ST=e, C=f correct?\n  [no]:  ▮",
        "Password Enter keystore password:  ▮",
        "Confirm Do you want to continue? [y/N]: ▮",
        "Text Your name [alice]: ▮",
        "Menu Pick a colour [red/green/blue] (red): ▮",
        "Menu 1) one\n2) two\n3) quit\n#? ▮",
        "Menu Enter your choice [1-4]: ▮",
        "Key Press any key to continue . . . ▮",
        "Key Press any key to continue...▮",
        "Key Hit Enter to continue: ▮",
        "Key Press y to accept the licence\n▮",
        "Key Press q to quit, any other key to go on\n▮",
        "Key -- Press RETURN to continue --▮",
        "Debugger (gdb) ▮",
        "Debugger Breakpoint 1, main () at a.c:3\n(gdb) ▮",
        "Debugger (lldb) ▮",
        "Debugger (byebug) ▮",
        "Debugger (rdbg) ▮",
        "Debugger (dlv) ▮",
        "Pager --More--(10%)▮",
        "Pager line 3\n--More--▮",
        "Pager Manual page ls(1) line 1 (press h for help or q to quit)▮",
        "Pager lines 1-23▮",
        "Pager lines 1-23/30 (END)▮",
        "Menu E325: ATTENTION\nSwap file \".a.swp\" already exists!\n[O]pen Read-Only, (E)dit anyway, (R)ecover, (D)elete it, (Q)uit, (A)bort: ▮",
        "Menu Do you want to create test.txt?\n❯ 1. Yes\n  2. Yes, allow all edits during this session (shift+tab)\n  3. No, and tell Claude what to do differently (esc)▮",
        "Text ◆  Project name:\n│  my-app▮\n└",
        "Confirm ◇  Project name:\n│  my-app\n│\n◆  Install dependencies?\n│  ● Yes / ○ No\n└\n▮",
        "Confirm Add .gitignore? (Y)es/(N)o [Yes]: ▮",
        "Dialog   ┌────┤ Configuring x ├────┐\n  │ Restart services?       │\n  │                         │\n  │    <Yes>      <No>      │\n  └─────────────────────────┘\n▮",
        "Confirm ? Are you ready to proceed? (Y/n) ▮",
        "Password [sudo] Passwort für alice: ▮",
        "Password Contraseña: ▮",
        "Password [sudo] пароль для alice: ▮",
        "Confirm Voulez-vous continuer ? [O/n] ▮",
        "Confirm ¿Desea continuar? [S/n] ▮",
        "Confirm Do you want to continue (yes/no)? ▮",
        "Confirm Delete 3 files? (yes/no) [no]: ▮",
        "Confirm Really quit? y/n ▮",
        "Password Enter host password for user 'alice': ▮",
        "Text please paste the token found on https://crates.io/me below\n▮",
        "Editor a.txt\n~\n~\n~\n~\n-- INSERT --                              1,1           All▮",
    ];
    let wrong = screens.into_iter().filter_map(|case| {
        let (kind, text) = case.split_once(' ').unwrap();
        let screen = with_cursor(text, kind == "Editor");
        let judgement = judge(&screen, None, &UserRules::default());
        let found = judgement.found.map(|found| found.prompt.kind);
        let is_right = found.is_some_and(|found| format!("{found:?}") == kind);
        (!is_right).then(|| format!("{case:?}: {found:?} ({})", judgement.rule))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn what_programs_at_work_and_idle_shells_show_is_no_prompt() {
    let screens = [
        "alice@host:~/src$ ▮",
        "[alice@host src]$ ▮",
        "host% ▮",
        "~/src main ❯ ▮",
        "Continue? [y/N] y\nalice@host:~$ ▮",
        "password:\n# ▮",
        ">>> ▮",
        "... ▮",
        "In [1]: ▮",
        "irb(main):001:0> ▮",
        "MariaDB [(none)]> ▮",
        "127.0.0.1:6379> ▮",
        "postgres=# ▮",
        "sftp> ▮",
        "php > ▮",
        "iex(1)> ▮",
        "scala> ▮",
        "[nodemon] watching path(s): *.*\n[nodemon] starting `node a.js`\n[nodemon] clean exit - waiting for changes before restart\n▮",
        "[nodemon] to restart at any time, enter `rs`\n▮",
        "webpack 5.1 compiled successfully in 312 ms\n▮",
        "10:00:00 AM - PromptMatch 0 errors. Watching for file changes.\n▮",
        "  ➜  Local:   http://localhost:5173/\n  ➜  press h + enter to show help\n▮",
        "Press CTRL+C to quit\n▮",
        " * Running on http://127.0.0.1:5000\nPress CTRL+C to quit\n▮",
        "SessionLink Usage: Press w to show more.▮",
        "SessionLink Usage\n › Press a to run all tests.\n › Press Enter to trigger a test run.\n▮",
        "› Press s │ switch to development build\n› Press a │ open Android\n› Press r │ reload app\n▮",
        "Flutter run key commands.\nr Hot reload.\nq Quit (terminate the application on the device).\n▮",
        "⠙ Installing dependencies▮",
        "⠋ reify:lodash: timing reifyNode▮",
        "Downloading crates ...\n   Compiling serde v1.0.1\n    Building [====>      ] 12/40: serde▮",
        "  Compiling confirm v0.1.0▮",
        "Fetching objects: ▮",
        "Uploading: ▮",
        "Do you want to continue? [Y/n] y\nReading package lists... ▮",
        "Reading package lists... Done\n▮",
        "test prompts::asks_password ... ▮",
        "Step 3/7 : RUN apt-get install -y curl\n ---> Running in 3f2a\n▮",
        "2026-01-01 10:00:00 INFO user asked: continue?\n▮",
        "Should we proceed? Yes.\nproceeding▮",
        "> build\n> tsc\n▮",
        "> app@1.0.0 dev\n> vite\n\n▮",
        "* main\n  other\n▮",
        "❯ src/a.test.ts (3 tests)\n  ✓ one\n▮",
        "> quoted text\n  more text\nend of mail\n▮",
        "top - 10:00:00 up 1 day\n  PID USER      PR  NI\n    1 root      20   0\n▮",
        "Every 2.0s: date\n\nSat Jan  1\n▮",
        "  % Total    % Received % Xferd\n  0     0    0     0    0     0      0      0 --:--:--  0:00:01 --:--:--     0▮",
        "Waiting for the debugger to attach...\n▮",
        "Deleting in 5 seconds, press Ctrl-C to abort... ▮",
        "The password: field is required\n▮",
        "error: Are you sure this is a git repository?\n▮",
    ];
    for text in screens {
        check_kind(text, None);
    }
}

#[test]
fn lists_are_found_by_the_cursor_in_them() {
    for case in [
        "Menu Choose a fruit: <- Choose a fruit:\n▮●apple\n banana\n orange",
        "Menu What do you bring <- What do you bring\n▮ tent\n stove\n rope",
        "Text What is your project name? <- 🎤 What is your project name?\n   ▮",
        "Menu lic <- 🎤 lic\n   (Use arrow keys)▮\n » MIT\n   BSD",
        "Menu Choose packages <- ? Choose packages ›\n  ↑/↓: Select a package\n  Esc/q: Quit\n\n❯ ◉ kleur  1.0.0\n  ◉ ms     1.0.0\n ▮",
        "Menu Current version 1.0.0 <- ? Current version 1.0.0 ›\n            major 2.0.0\n❯            next 1.0.1\n           custom ...▮",
    ] {
        let (expected, text) = case.split_once(" <- ").unwrap();
        let judgement = judge(&with_cursor(text, false), None, &UserRules::default());
        let found = judgement.found.map(|found| found.prompt);
        let found = found.map(|found| format!("{:?} {}", found.kind, found.text));
        assert_eq!(
            found.as_deref(),
            Some(expected),
            "{text}\n{}",
            judgement.rule
        );
    }
    for text in [
        "Top files:\n  a.c\n  b.c\n▮",
        "What changed\n  a.c\n  b.c▮",
        "Are you sure it compiles?\n▮",
        "✔ Which kit? React\nDownloading\n❯ Install\n  ◼ Build\n▮",
    ] {
        check_kind(text, None);
    }
}

#[test]
fn a_program_that_sleeps_all_the_time_takes_no_keys_whatever_it_shows() {
    let asleep = TtyEvidence {
        reader: TtyUse::Elsewhere,
        canonical: Some(false),
        checks_no_keys: true,
        ..TtyEvidence::default()
    };
    let waits = |terminal: &TtyEvidence| {
        let judgement = judge(&screen("Loading? "), Some(terminal), &UserRules::default());
        judgement.found.is_some()
    };
    assert!(!waits(&asleep));
    // One that runs may look for keys now and then.
    let runs = TtyEvidence {
        checks_no_keys: false,
        ..asleep.clone()
    };
    assert!(waits(&runs));
    // What waits on the other side is not visible.
    let relays = TtyEvidence {
        may_relay: true,
        ..asleep
    };
    assert!(waits(&relays));
}

#[test]
fn a_line_that_one_of_several_threads_reads_waits_longer_unless_it_is_a_question() {
    let terminal = TtyEvidence {
        reader: TtyUse::Reading,
        canonical: Some(true),
        echo: Some(true),
        foreground: Foreground::Command,
        ..TtyEvidence::default()
    };
    let threaded = TtyEvidence {
        reader_has_threads: true,
        ..terminal.clone()
    };
    let still_for = |text: &str, terminal: &TtyEvidence| {
        let judgement = judge(&screen(text), Some(terminal), &UserRules::default());
        judgement.found.map(|found| found.still_for)
    };
    for (text, expected) in [
        ("player 3 has joined\n", LOG_STILL),
        ("", LOG_STILL),
        ("Your name:", Duration::ZERO),
    ] {
        assert_eq!(still_for(text, &threaded), Some(expected), "{text:?}");
        assert_eq!(still_for(text, &terminal), Some(Duration::ZERO), "{text:?}");
    }
}

/// A foreground program that is not an idle interpreter, in line mode.
fn command() -> TtyEvidence {
    TtyEvidence {
        reader: TtyUse::Reading,
        canonical: Some(true),
        echo: Some(true),
        foreground: Foreground::Command,
        ..TtyEvidence::default()
    }
}

fn judged(text: &str, is_alternate: bool, terminal: &TtyEvidence) -> Option<PromptMatch> {
    let screen = with_cursor(text, is_alternate);
    judge(&screen, Some(terminal), &UserRules::default()).found
}

#[test]
fn what_a_user_types_into_a_shell_is_not_asked_for() {
    let asked = |kind: &str, text: &str, programs: &[&str]| {
        let mut task = crate::model::test_notation::task(&format!("@1#1 a running{kind}"));
        task.screen = with_cursor(text, false);
        let terminal = TtyEvidence {
            programs: programs.iter().map(|name| (*name).to_owned()).collect(),
            ..command()
        };
        let judgement = judge_task(&task, Some(&terminal), &UserRules::default());
        judgement.found.map(|found| found.prompt.text)
    };
    for (text, programs) in [
        ("~$ cat\n▮", &["cat"][..]),
        ("~$ cat\nhello\nhello\nSure? [y/N]\n▮", &["cat"]),
        ("~$ cat\nhalf a li▮", &["cat"]),
        ("~$ sort | tee sorted\n▮", &["sort", "tee"]),
        ("~$ while true; do wc -l; done\n▮", &["bash", "wc"]),
        ("~$ ./copy -x\n▮", &["copy"]),
        ("~$ make && /srv/bin/copy\n▮", &["copy"]),
        ("▮", &["copy"]),
    ] {
        assert_eq!(asked(" shell", text, programs), None, "{text}");
        assert!(asked("", text, programs).is_some(), "{text}");
    }
    for (text, programs, prompt) in [
        ("~$ ./deploy\nName: ▮", &["deploy"][..], "Name:"),
        ("~$ ./deploy\nwhich host\n▮", &["deploy"], "which host"),
        (
            "~$ ./deploy\nGo on with deploy? [y/N]\n▮",
            &["deploy"],
            "Go on with deploy? [y/N]",
        ),
        (
            "~$ yes | ./deploy | cat\nHost? ▮",
            &["deploy", "cat"],
            "Host?",
        ),
    ] {
        assert_eq!(asked(" shell", text, programs).as_deref(), Some(prompt));
    }
}

#[test]
fn what_may_be_a_line_of_a_log_is_a_question_only_after_a_while() {
    let threaded = TtyEvidence {
        reader_has_threads: true,
        ..command()
    };
    let takes_keys = TtyEvidence {
        canonical: Some(false),
        ..threaded.clone()
    };
    let polls = TtyEvidence {
        reader: TtyUse::Polling,
        ..takes_keys.clone()
    };
    for terminal in [&threaded, &takes_keys, &polls] {
        for line in ["Rebuild everything?", "Delete everything? [y/N]"] {
            let still_for = |text| judged(text, false, terminal).map(|found| found.still_for);
            let ended = format!("{line}\n▮");
            assert_eq!(still_for(&ended), Some(LOG_STILL), "{line} {terminal:?}");
            let asked = format!("{line} ▮");
            assert_eq!(
                still_for(&asked),
                Some(Duration::ZERO),
                "{line} {terminal:?}"
            );
        }
    }
    // One thread that reads prints no log.
    let single = TtyEvidence {
        reader_has_threads: false,
        ..takes_keys.clone()
    };
    let found = judged("Go on? [y/N]\n▮", false, &single);
    assert_eq!(found.map(|found| found.still_for), Some(Duration::ZERO));
    let found = judged("GET /item?id=3 took:\n▮", false, &threaded);
    assert_eq!(found.map(|found| found.still_for), Some(LOG_STILL));
}

#[test]
fn an_agent_may_ask_for_the_secret_of_a_program_that_reads_nothing() {
    let gpg = |canonical, echo| TtyEvidence {
        reader: TtyUse::Elsewhere,
        canonical: Some(canonical),
        echo: Some(echo),
        programs: ["bash", "gpg"].map(str::to_owned).to_vec(),
        checks_no_keys: true,
        ..command()
    };
    let lines = "Enter passphrase\n\nPassphrase: ▮";
    let dialog = "   ┌──────────────────────────┐\n   │ Enter passphrase         │\n   │                          │\n   │ Passphrase: ▮____________ │\n   │                          │\n   │    <OK>      <Cancel>    │\n   └──────────────────────────┘";
    let asked = |text, terminal: &TtyEvidence| {
        let prompt = judged(text, text == dialog, terminal)?.prompt;
        Some((prompt.kind, prompt.secret))
    };
    let secret = Some((PromptKind::Password, true));
    assert_eq!(asked(lines, &gpg(true, false)), secret);
    assert_eq!(asked(lines, &gpg(true, true)), None, "it works");
    let in_dialog = Some((PromptKind::Dialog, true));
    assert_eq!(asked(dialog, &gpg(false, false)), in_dialog);
    let other = TtyEvidence {
        programs: vec!["sleep".to_owned()],
        ..gpg(true, false)
    };
    assert_eq!(asked(lines, &other), None);
    let other = TtyEvidence {
        canonical: Some(false),
        ..other
    };
    assert_eq!(asked(dialog, &other), None);
}

#[test]
fn what_ends_the_input_of_a_single_thread_is_no_hint_of_a_program_at_work() {
    let text = "Paste your diff and press Ctrl-D\n▮";
    assert!(judged(text, false, &command()).is_some());
    let threaded = TtyEvidence {
        reader_has_threads: true,
        ..command()
    };
    assert!(judged(text, false, &threaded).is_none());
    assert!(judged("Press Ctrl+C to quit\n▮", false, &command()).is_none());
}

#[test]
fn a_mark_below_a_frame_is_no_interpreters_prompt() {
    // Whether it was given a script is not known.
    let python = TtyEvidence {
        foreground: Foreground::Unknown,
        programs: vec!["python".to_owned()],
        ..command()
    };
    let menu = "  ┌──────────────┐\n  │  Tools       │\n  │  1 - Do it   │\n  │  2 - Exit    │\n  └──────────────┘\n  >> ▮";
    assert!(judged(menu, false, &python).is_some());
    for idle in ["welcome", "  └──────┘", "└──┴───┘"] {
        for mark in [">>> ▮", "> ▮", "sqlite> ▮"] {
            let text = format!("{idle}\n{mark}");
            assert!(judged(&text, false, &python).is_none(), "{text}");
        }
    }
}

#[test]
fn a_script_that_reads_a_line_asks_behind_a_mark() {
    let asked = |text: &str, programs: &[&str], foreground: Foreground| {
        let terminal = TtyEvidence {
            foreground,
            programs: programs.iter().copied().map(str::to_owned).collect(),
            ..command()
        };
        judged(text, false, &terminal).map(|found| found.prompt.text)
    };
    let scripted = |text: &str, programs: &[&str]| asked(text, programs, Foreground::Command);
    for programs in [
        &["python3"][..],
        &["bash", "python3.12"],
        &["perl"],
        &["node"],
    ] {
        for mark in [">", "Name >", "cmd>", "my-app>"] {
            let text = format!("Describe the change\n{mark} ▮");
            let is = |foreground| asked(&text, programs, foreground);
            assert_eq!(
                is(Foreground::Command).as_deref(),
                Some(mark),
                "{programs:?}"
            );
            assert_eq!(is(Foreground::Idle), None, "{text}");
            assert_eq!(is(Foreground::Unknown), None, "{text}");
        }
        let below = scripted("Which colour?\n> ▮", programs);
        assert_eq!(below.as_deref(), Some("Which colour?"));
        // Consoles that were given something to run first.
        for mark in [
            ">>>",
            "...",
            "irb(main):001>",
            "sqlite>",
            "mysql>",
            "redis>",
            "app=#",
            "127.0.0.1:6379>",
            "ghci>",
            "python>",
        ] {
            assert_eq!(scripted(&format!("{mark} ▮"), programs), None, "{mark}");
        }
    }
    for programs in [&["mysql"][..], &["sqlite3"], &["python3", "psql"]] {
        assert_eq!(scripted("> ▮", programs), None, "{programs:?}");
    }
    // Keys may also be read by a console.
    let keys = TtyEvidence {
        canonical: Some(false),
        programs: vec!["python3".to_owned()],
        ..command()
    };
    assert_eq!(judged("> ▮", false, &keys), None);
}

#[test]
fn a_line_is_read_for_the_last_text_above() {
    let asked = |n_blank: usize, terminal: &TtyEvidence| {
        let text = format!("Answer below:\n{}▮", "\n".repeat(n_blank));
        judged(&text, false, terminal).map(|found| (found.prompt.kind, found.prompt.text))
    };
    let text = |text: &str| Some((PromptKind::Text, text.to_owned()));
    for n_blank in 0..6 {
        assert_eq!(
            asked(n_blank, &command()),
            text("Answer below:"),
            "{n_blank}"
        );
    }
    assert_eq!(asked(6, &command()), text(""));
    // Only what certainly reads is above text that is so far away.
    let polls = TtyEvidence {
        reader: TtyUse::Polling,
        ..command()
    };
    assert_eq!(asked(3, &polls), None);
}

/// A program that polls the terminal for keys.
fn polls_keys(program: &str) -> TtyEvidence {
    TtyEvidence {
        reader: TtyUse::Polling,
        canonical: Some(false),
        echo: Some(false),
        programs: vec![program.to_owned()],
        ..command()
    }
}

#[test]
fn programs_that_do_nothing_by_themselves_are_known_by_their_names() {
    let files = " .config\n a\n▮ b\n1/3 2026-01-01";
    let kind_of = |program: &str, is_alternate: bool, may_relay: bool| {
        let terminal = TtyEvidence {
            may_relay,
            ..polls_keys(program)
        };
        let found = judged(files, is_alternate, &terminal)?;
        Some((found.prompt.kind, found.prompt.text))
    };
    let menu = Some((PromptKind::Menu, String::new()));
    assert_eq!(kind_of("nnn", true, false), menu);
    assert_eq!(kind_of("nnn", false, false), None);
    // It has a terminal for commands.
    assert_eq!(kind_of("mc", true, true), menu);
    let pager = kind_of("mcview", true, true).map(|(kind, _)| kind);
    assert_eq!(pager, Some(PromptKind::Pager));
    assert_eq!(kind_of("vim", true, true), None);
    assert_eq!(kind_of("htop", true, false), None);
    let picked = judged("> ▮\none\ntwo", false, &polls_keys("fzy")).map(|found| found.prompt.text);
    assert_eq!(picked.as_deref(), Some(">"));
}

#[test]
fn a_script_that_waits_for_a_while_is_behind_a_mark() {
    let lines = |program: &str| TtyEvidence {
        canonical: Some(true),
        echo: Some(true),
        ..polls_keys(program)
    };
    let asked = |text: &str, program: &str| {
        let found = judged(text, false, &lines(program))?;
        Some((found.prompt.text, found.still_for))
    };
    for mark in ["Token>", "user name>", "[1] next>>", ">"] {
        let text = format!("ready\n{mark} ▮");
        assert_eq!(asked(&text, "bash"), Some((mark.to_owned(), LOG_STILL)));
        // Another program may print its commands' prompt and go on.
        assert_eq!(asked(&text, "node"), None, "{text}");
    }
    for works in ["[====>▮", "a -> ▮", "src/a.js >\n▮", "Waiting..▮", "90% ▮"] {
        assert_eq!(asked(works, "bash"), None, "{works}");
    }
}

#[test]
fn a_mark_below_counted_choices_asks_what_their_heading_asks() {
    let choices = "  1 red\n  2 blue\n> ▮";
    for canonical in [true, false] {
        let terminal = TtyEvidence {
            canonical: Some(canonical),
            echo: Some(true),
            ..polls_keys("node")
        };
        let asked = |heading: &str| {
            let text = format!("{heading}\n{choices}");
            let found = judged(&text, false, &terminal)?;
            Some((found.prompt.kind, found.prompt.text))
        };
        let question = "Which one?";
        let expected = Some((PromptKind::Menu, question.to_owned()));
        assert_eq!(asked(question), expected);
        assert_eq!(asked("rows of the table"), None);
    }
}

#[test]
fn a_turning_sign_behind_a_question_is_not_part_of_it() {
    for sign in ["|", "/", "-", "\\"] {
        let text = format!("Continue? [y/N] {sign}▮");
        let found = judged(&text, false, &polls_keys("node"));
        let asked = found.map(|found| found.prompt.text);
        assert_eq!(asked.as_deref(), Some("Continue? [y/N]"), "{text}");
        let loads = format!("Loading: {sign}▮");
        assert_eq!(judged(&loads, false, &polls_keys("node")), None);
    }
}

#[test]
fn what_follows_a_file_reads_nothing() {
    assert_eq!(judged("Password: ▮", true, &polls_keys("multitail")), None);
    assert!(judged("Password: ▮", true, &polls_keys("tool")).is_some());
}

#[test]
fn a_listener_asks_for_what_is_typed_below() {
    let lines = |canonical: bool, program: &str| TtyEvidence {
        canonical: Some(canonical),
        echo: Some(canonical),
        ..polls_keys(program)
    };
    let asked = |text: &str, canonical: bool| {
        let found = judged(text, false, &lines(canonical, "node"))?;
        assert_eq!(found.still_for, LOG_STILL, "{text}");
        Some((found.prompt.kind, found.prompt.text))
    };
    let text = |text: &str| Some((PromptKind::Text, text.to_owned()));
    let query = "Enter your query:";
    assert_eq!(asked(&format!("{query}\n▮"), false), text(query));
    assert_eq!(asked(&format!("{query}\n▮"), true), text(query));
    assert_eq!(asked("Type errors found:\n▮", true), None);
    let plans = "Choose a plan\n❯ Free\n  Pro\n▮";
    let menu = Some((PromptKind::Menu, "Choose a plan".to_owned()));
    assert_eq!(asked(plans, false), menu);
    assert_eq!(asked(plans, true), None);
    for printed in [
        "\n❯ Free\n  Pro\n▮",
        "Plans\n❯ Free\n❯ Pro\n▮",
        "Plans\n❯ Free\n  Pro\n\n▮",
        "Plans\n❯ Free\n  Pro\nbuilt in 3 s\n▮",
        "Plans\n❯ Free\n  Pro\n  press q to quit\n▮",
    ] {
        assert_eq!(asked(printed, false), None, "{printed}");
    }
    // By the text alone, they may have been printed.
    assert_eq!(find(&with_cursor(plans, false)), None);
}

#[test]
fn buttons_and_boxes_below_a_question_ask() {
    let asked = |text: &str| {
        let found = judged(text, true, &polls_keys("python3"))?;
        Some((found.prompt.kind, found.prompt.text))
    };
    let dialog = |text: &str| Some((PromptKind::Dialog, text.to_owned()));
    let yes = "▔▔▔▔▔▔▔▔\n  Yes\n▁▁▁▁▁▁▁▁\n";
    let no = "▔▔▔▔▔▔▔▔\n  No\n▁▁▁▁▁▁▁▁";
    assert_eq!(
        asked("Really quit?\n<▮ Yes      >\n< No       >"),
        dialog("Really quit?")
    );
    assert_eq!(asked(&format!("▮Deploy?\n{yes}{no}")), dialog("Deploy?"));
    assert_eq!(
        asked("▮Deploy?\n\n▔▔▔▔ ▔▔▔▔\n Yes  No\n▁▁▁▁ ▁▁▁▁"),
        dialog("Deploy?")
    );
    assert_eq!(asked(&format!("▮Requests\n{yes}{no}")), None);
    assert_eq!(asked(&format!("▮Deploying?\n{no}")), None);
    assert_eq!(asked("Deployed\n<▮ Stop      >\n< Restart   >"), None);
    let field = "▊▔▔▔▔▔▔▔▔▎\n▊▮        ▎\n▊▁▁▁▁▁▁▁▁▎";
    let text = Some((PromptKind::Text, "Project name:".to_owned()));
    assert_eq!(asked(&format!("Project name:\n{field}")), text);
    assert_eq!(asked(&format!("Requests\n{field}")), None);
}

#[test]
fn a_mark_below_lettered_choices_asks_for_one() {
    let text = "Choose wisely...\n   a. sword\n   b. shield\n\n> ▮";
    check_kind(text, Some(PromptKind::Menu));
}

#[test]
fn the_rows_that_ask_are_the_question_with_its_choices_and_its_field() {
    #[track_caller]
    fn check(text: &str, is_alternate: bool, terminal: &TtyEvidence, expected: Range<usize>) {
        let found = judged(text, is_alternate, terminal).map(|found| found.rows);
        assert_eq!(found, Some(expected), "{text}");
    }
    let keys = polls_keys("node");
    check("built\nGo on? [y/N] ▮", false, &command(), 1..2);
    check("built\nWhich port?\n\n▮", false, &command(), 1..4);
    check("built\nWhich port?\n> ▮\n3 tokens", false, &keys, 1..3);
    check("1 s\n? Kit\n❯ Vue\n  Ink▮", false, &keys, 1..4);
    check(
        "1 s\n Go on?\n\n ❯ 1. Yes\n   2. No\n\n esc to cancel\n▮",
        false,
        &keys,
        1..5,
    );
    check("1 s\n◆  Name:\n│  app▮\n└", false, &keys, 1..4);
    check(
        "1 s\n ┌─┤ Disk ├──┐\n │ Wipe it?  │\n │   <Yes>  <No>  │\n └───────────┘\n2 s▮",
        false,
        &keys,
        1..5,
    );
    // Without text nothing asks.
    check("▮", false, &command(), 0..0);
    let wide = Screen {
        width: Some(10),
        ..with_cursor("built\nRemove the\n old files\n? [y/N] ▮", false)
    };
    let judgement = judge(&wide, Some(&command()), &UserRules::default());
    assert_eq!(judgement.found.map(|found| found.rows), Some(1..4));
}

/// What tmux 3.3a and 3.7 do with marks differs, so all columns are tried that one of them may use.
#[test]
fn labels_in_scripts_with_marks_are_read() {
    use PromptKind::{Confirm, Key, Password, Text};
    for (label, x, kind) in [
        // The columns of tmux 3.3a behind each text and a blank.
        ("பெயர்:", 6, Text),
        ("ឈ្មោះ៖", 6, Text),
        ("အမည်:", 5, Text),
        ("নাম:", 5, Text),
        ("ชื่อ:", 4, Text),
        ("รหัสผ่าน:", 8, Password),
        ("ใส่จำนวน:", 9, Text),
        ("नाम दर्ज करें:", 12, Text),
        ("పేరు:", 5, Text),
        ("ಹೆಸರು:", 6, Text),
        ("പേര്:", 5, Text),
        ("නම:", 4, Text),
        ("མིང་:", 5, Text),
        ("ຊື່:", 3, Text),
        ("Tên của bạn:", 13, Text),
        ("Cafe\u{301}:", 6, Text),
        ("شہر:", 5, Text),
        ("কি চালিয়ে যেতে চান?", 20, Text),
        ("தொடரவா? [y/N]", 13, Confirm),
        ("👩\u{200d}💻 Name:", 9, Text),
        ("🇩🇪 Land:", 9, Text),
        ("请按任意键继续. . .", 20, Key),
        ("按任意键...", 12, Key),
        ("按任意键继续", 13, Key),
        ("続行するには何かキーを押してください . . .", 43, Key),
    ] {
        let (least, most) = cursor_context::widths(label);
        let all = least + 1..=most + 1;
        assert!(all.contains(&x), "{label}: {x} is not in {all:?}");
        for x in all {
            let cursor = CursorPosition {
                x: u32::try_from(x).unwrap(),
                y: 0,
            };
            let screen = Screen {
                cursor: Some(cursor),
                ..screen(label)
            };
            let found = judge(&screen, Some(&polls_keys("node")), &UserRules::default()).found;
            let found = found.map(|found| found.prompt.kind);
            assert_eq!(found, Some(kind), "{label} with the cursor at {cursor:?}");
        }
    }
    let below = with_cursor("请按任意键继续. . .\n▮", false);
    let found = judge(&below, Some(&polls_keys("node")), &UserRules::default()).found;
    assert_eq!(found.map(|found| found.prompt.kind), Some(Key));
}

/// A program in the background is stopped; those in the foreground wait for it.
fn behind(stop: Stop) -> TtyEvidence {
    TtyEvidence {
        reader: TtyUse::Elsewhere,
        programs: vec!["bash".to_owned()],
        stopped: Some(stop),
        ..command()
    }
}

#[test]
fn a_program_that_is_stopped_in_the_background_waits() {
    let asked = |text: &str, stop| {
        let found = judged(text, false, &behind(stop))?;
        Some((found.prompt.text, found.prompt.kind, found.prompt.secret))
    };
    let text = |text: &str| Some((text.to_owned(), PromptKind::Text, false));
    for stop in [Stop::BackgroundRead, Stop::BackgroundSetup] {
        let confirm = ("Continue? [y/N]".to_owned(), PromptKind::Confirm, false);
        assert_eq!(asked("Continue? [y/N] ▮", stop), Some(confirm));
        assert_eq!(asked("Name here ▮", stop), text("Name here"));
        assert_eq!(asked("▮", stop), text(""));
        assert_eq!(asked("Colour?\n> ▮", stop), text("Colour?"));
        // What is a command prompt elsewhere.
        assert_eq!(asked(">>> ▮", stop), text(">>>"));
    }
    // One that reads has shown its text; one that sets the terminal up may not have.
    assert_eq!(
        asked("Name below\n▮", Stop::BackgroundRead),
        text("Name below")
    );
    assert_eq!(asked("Name below\n▮", Stop::BackgroundSetup), text(""));
    let secret = |stop| asked("Password: ▮", stop).map(|(_, _, secret)| secret);
    assert_eq!(secret(Stop::BackgroundRead), Some(false));
    assert_eq!(secret(Stop::BackgroundSetup), Some(true));
}

#[test]
fn a_program_that_a_signal_has_stopped_asks_nothing_new() {
    let stopped = behind(Stop::BySignal);
    assert_eq!(judged("Continue? [y/N] ▮", false, &stopped), None);
    let hidden_keys = TtyEvidence {
        canonical: Some(false),
        ..stopped.clone()
    };
    assert_eq!(judged("Continue? [y/N] ▮", false, &hidden_keys), None);
    // What was asked before.
    let asks = TtyEvidence {
        reader: TtyUse::Reading,
        ..stopped
    };
    assert!(judged("Continue? [y/N] ▮", false, &asks).is_some());
}
