mod lists;

use std::ops::Range;
use std::time::Duration;

use super::cursor_context::LOG_STILL;
use super::*;
use crate::model::test_notation::{screen, stories};
use crate::model::{CursorPosition, Foreground, PromptKind, Screen, Stop, TtyEvidence, TtyUse};

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
        "Menu Do you want to create test.txt?\n❯ 1. Yes\n  2. Yes, allow all edits during this session (shift+tab)\n  3. No, and tell Claude what to do differently (esc)▮",
        "Text ◆  Project name:\n│  my-app▮\n└",
        "Confirm ◇  Project name:\n│  my-app\n│\n◆  Install dependencies?\n│  ● Yes / ○ No\n└\n▮",
        "Confirm Add .gitignore? (Y)es/(N)o [Yes]: ▮",
        "Dialog   ┌────┤ Configuring x ├────┐\n  │ Restart services?       │\n  │                         │\n  │    <Yes>      <No>      │\n  └─────────────────────────┘\n▮",
        "Confirm ? Are you ready to proceed? (Y/n) ▮",
        "Password [sudo] Passwort für alice: ▮",
        "Password Contraseña: ▮",
        "Password [sudo] пароль для alice: ▮",
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
        "~/src main ❯ ▮",
        "Continue? [y/N] y\nalice@host:~$ ▮",
        "password:\n# ▮",
        ">>> ▮",
        "[nodemon] watching path(s): *.*\n[nodemon] starting `node a.js`\n[nodemon] clean exit - waiting for changes before restart\n▮",
        "webpack 5.1 compiled successfully in 312 ms\n▮",
        "10:00:00 AM - PromptMatch 0 errors. Watching for file changes.\n▮",
        "  ➜  Local:   http://localhost:5173/\n  ➜  press h + enter to show help\n▮",
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

/// A terminal in a few words: a command that `reads` a line from it, unless one of these says something
/// else. `polls`, `works`, `hidden`: what it does; `keys`, `raw`, `silent`: how it is set; `idle`,
/// `maybe-idle`: whether it is an interpreter; `threads`, `relays`, `sleeps`, `stopped-read`,
/// `stopped-setup`, `stopped-signal`. Other words are its programs.
fn terminal(words: &str) -> TtyEvidence {
    let mut terminal = TtyEvidence {
        reader: TtyUse::Reading,
        canonical: Some(true),
        echo: Some(true),
        foreground: Foreground::Command,
        ..TtyEvidence::default()
    };
    for word in words.split(' ') {
        match word {
            "reads" | "alt" => {}
            "polls" => terminal.reader = TtyUse::Polling,
            "works" => terminal.reader = TtyUse::Elsewhere,
            "hidden" => terminal.reader = TtyUse::Unknown,
            "keys" => (terminal.canonical, terminal.echo) = (Some(false), Some(false)),
            "raw" => terminal.canonical = Some(false),
            "silent" => terminal.echo = Some(false),
            "idle" => terminal.foreground = Foreground::Idle,
            "maybe-idle" => terminal.foreground = Foreground::Unknown,
            "threads" => terminal.reader_has_threads = true,
            "relays" => terminal.may_relay = true,
            "sleeps" => terminal.checks_no_keys = true,
            "stopped-read" => terminal.stopped = Some(Stop::BackgroundRead),
            "stopped-setup" => terminal.stopped = Some(Stop::BackgroundSetup),
            "stopped-signal" => terminal.stopped = Some(Stop::BySignal),
            program => terminal.programs.push(program.to_owned()),
        }
    }
    terminal
}

/// A program that polls the terminal for keys.
fn polls_keys(program: &str) -> TtyEvidence {
    terminal(&format!("polls keys {program}"))
}

fn judged(text: &str, is_alternate: bool, terminal: &TtyEvidence) -> Option<PromptMatch> {
    let screen = with_cursor(text, is_alternate);
    judge(&screen, Some(terminal), &UserRules::default()).found
}

/// Checks cases such as `TERMINAL :: SCREEN => KIND QUESTION`: `-` is no question, `KIND!` a secret one,
/// and `KIND~` one that has to stand still for a while, `KIND~1s` for another while. `alt` is the alternate screen, `\n` a new row.
#[track_caller]
fn check_terminals(cases: &str) {
    let lines = stories(cases).into_iter().flat_map(|(_, lines)| lines);
    let wrong = lines.filter_map(|line| {
        let (case, expected) = line.rsplit_once("=>").unwrap();
        let (words, text) = case.split_once(" ::").unwrap();
        let text = text.strip_prefix(' ').unwrap_or(text).replace(r"\n", "\n");
        let is_alternate = words.split(' ').any(|word| word == "alt");
        let found = judged(text.trim_end_matches(' '), is_alternate, &terminal(words));
        let found = found.map_or("-".to_owned(), |found| {
            let PromptMatch {
                prompt, still_for, ..
            } = found;
            let secret = if prompt.secret { "!" } else { "" };
            let still = match still_for {
                Duration::ZERO => String::new(),
                LOG_STILL => "~".to_owned(),
                other => format!("~{other:?}"),
            };
            format!("{:?}{secret}{still} {}", prompt.kind, prompt.text)
        });
        (found.trim() != expected.trim()).then(|| format!("{line}: {found}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn what_a_program_does_with_the_terminal_says_whether_it_asks() {
    check_terminals(
        r"
        ## a program that sleeps all the time takes no keys, whatever it shows
        works raw sleeps :: Loading? => -
        # One that runs may look for keys now and then.
        works raw :: Loading? => Text Loading?
        # What waits on the other side is not visible.
        works raw sleeps relays :: Loading? => Text Loading?

        ## a line that one of several threads reads waits longer unless it is a question
        reads threads :: player 3 has joined\n▮ => Text~ player 3 has joined
        reads threads :: ▮ => Text~
        reads threads :: Your name: ▮ => Text Your name:
        reads :: player 3 has joined\n▮ => Text player 3 has joined
        reads :: ▮ => Text
        reads :: Your name: ▮ => Text Your name:

        ## what may be a line of a log is a question only after a while
        reads threads :: Rebuild everything?\n▮ => Text~ Rebuild everything?
        reads threads :: Rebuild everything? ▮ => Text Rebuild everything?
        reads threads :: Delete everything? [y/N]\n▮ => Confirm~ Delete everything? [y/N]
        reads threads :: Delete everything? [y/N] ▮ => Confirm Delete everything? [y/N]
        reads raw threads :: Rebuild everything?\n▮ => Text~ Rebuild everything?
        reads raw threads :: Rebuild everything? ▮ => Text Rebuild everything?
        reads raw threads :: Delete everything? [y/N]\n▮ => Confirm~ Delete everything? [y/N]
        reads raw threads :: Delete everything? [y/N] ▮ => Confirm Delete everything? [y/N]
        polls raw threads :: Rebuild everything?\n▮ => Text~ Rebuild everything?
        polls raw threads :: Rebuild everything? ▮ => Text Rebuild everything?
        polls raw threads :: Delete everything? [y/N]\n▮ => Confirm~ Delete everything? [y/N]
        polls raw threads :: Delete everything? [y/N] ▮ => Confirm Delete everything? [y/N]
        # One thread that reads prints no log.
        reads raw :: Go on? [y/N]\n▮ => Confirm Go on? [y/N]
        reads threads :: GET /item?id=3 took:\n▮ => Text~ GET /item?id=3 took:

        ## an agent may ask for the secret of a program that reads nothing
        works silent sleeps bash gpg :: Enter passphrase\n\nPassphrase: ▮ => Password! Passphrase:
        # It works.
        works sleeps bash gpg :: Enter passphrase\n\nPassphrase: ▮ => -
        works silent sleeps sleep :: Enter passphrase\n\nPassphrase: ▮ => -
        works keys sleeps alt bash gpg ::    ┌──────────────────────────┐\n   │ Enter passphrase         │\n   │                          │\n   │ Passphrase: ▮____________ │\n   │                          │\n   │    <OK>      <Cancel>    │\n   └──────────────────────────┘ => Dialog! Enter passphrase
        works keys sleeps alt sleep ::    ┌──────────────────────────┐\n   │ Enter passphrase         │\n   │                          │\n   │ Passphrase: ▮____________ │\n   │                          │\n   │    <OK>      <Cancel>    │\n   └──────────────────────────┘ => -

        ## what ends the input of a single thread is no hint of a program at work
        reads :: Paste your diff and press Ctrl-D\n▮ => Text Paste your diff and press Ctrl-D
        reads threads :: Paste your diff and press Ctrl-D\n▮ => -
        reads :: Press Ctrl+C to quit\n▮ => -

        ## a line is read for the last text above
        reads :: Answer below:\n▮ => Text Answer below:
        reads :: Answer below:\n\n▮ => Text Answer below:
        reads :: Answer below:\n\n\n\n\n\n▮ => Text Answer below:
        reads :: Answer below:\n\n\n\n\n\n\n▮ => Text
        # Only what certainly reads is above text that is so far away.
        polls :: Answer below:\n\n\n\n▮ => -

        ## programs that do nothing by themselves are known by their names
        polls keys nnn alt ::  .config\n a\n▮ b\n1/3 2026-01-01 => Menu
        polls keys nnn ::  .config\n a\n▮ b\n1/3 2026-01-01 => -
        # It has a terminal for commands.
        polls keys mc alt relays ::  .config\n a\n▮ b\n1/3 2026-01-01 => Menu
        polls keys mcview alt relays ::  .config\n a\n▮ b\n1/3 2026-01-01 => Pager~1s 1/3 2026-01-01
        polls keys vim alt relays ::  .config\n a\n▮ b\n1/3 2026-01-01 => -
        polls keys htop alt ::  .config\n a\n▮ b\n1/3 2026-01-01 => -
        polls keys fzy :: > ▮\none\ntwo => Menu >

        ## what follows a file reads nothing
        polls keys multitail alt :: Password: ▮ => -
        polls keys tool alt :: Password: ▮ => Password! Password:

        ## a mark below counted choices asks what their heading asks
        polls node :: Which one?\n  1 red\n  2 blue\n> ▮ => Menu Which one?
        polls node :: rows of the table\n  1 red\n  2 blue\n> ▮ => -
        polls node :: Which one?\n  1 red\n> ▮ => -
        polls node :: Which one?\n  2 red\n  3 blue\n> ▮ => -
        polls node :: Which one?\n  1 red\n  2\n> ▮ => -
        polls node :: Which one?\n  1 red\n  and\n  2 blue\n> ▮ => -
        polls raw node :: Which one?\n  1 red\n  2 blue\n> ▮ => Menu Which one?
        polls raw node :: rows of the table\n  1 red\n  2 blue\n> ▮ => -

        ## a turning sign behind a question is not part of it
        polls keys node :: Continue? [y/N] |▮ => Confirm Continue? [y/N]
        polls keys node :: Continue? [y/N] /▮ => Confirm Continue? [y/N]
        polls keys node :: Continue? [y/N] -▮ => Confirm Continue? [y/N]
        polls keys node :: Continue? [y/N] ⠙▮ => Confirm Continue? [y/N]
        polls keys node :: Continue? [y/N] ◐▮ => Confirm Continue? [y/N]
        polls keys node :: Continue? [y/N] \▮ => Confirm Continue? [y/N]
        polls keys node :: Loading: |▮ => -
        polls keys node :: Loading: \▮ => -

        ## a listener asks for what is typed below
        polls keys node :: Enter your query:\n▮ => Text~ Enter your query:
        polls node :: Enter your query:\n▮ => Text~ Enter your query:
        polls node :: Type errors found:\n▮ => -
        polls keys node :: Choose a plan\n❯ Free\n  Pro\n▮ => Menu~ Choose a plan
        polls node :: Choose a plan\n❯ Free\n  Pro\n▮ => -
        polls keys node :: \n❯ Free\n  Pro\n▮ => -
        polls keys node :: Plans\n❯ Free\n❯ Pro\n▮ => -
        polls keys node :: Plans\n❯ Free\n  Pro\n\n▮ => -
        polls keys node :: Plans\n❯ Free\n  Pro\nbuilt in 3 s\n▮ => -
        polls keys node :: Plans\n❯ Free\n  Pro\n  press q to quit\n▮ => -

        ## buttons and boxes below a question ask
        polls keys python3 alt :: Really quit?\n<▮ Yes      >\n< No       > => Dialog~ Really quit?
        polls keys python3 alt :: ▮Deploy?\n▔▔▔▔▔▔▔▔\n  Yes\n▁▁▁▁▁▁▁▁\n▔▔▔▔▔▔▔▔\n  No\n▁▁▁▁▁▁▁▁ => Dialog~ Deploy?
        polls keys python3 alt :: ▮Deploy?\n\n▔▔▔▔ ▔▔▔▔\n Yes  No\n▁▁▁▁ ▁▁▁▁ => Dialog~ Deploy?
        polls keys python3 alt :: ▮Requests\n▔▔▔▔▔▔▔▔\n  Yes\n▁▁▁▁▁▁▁▁\n▔▔▔▔▔▔▔▔\n  No\n▁▁▁▁▁▁▁▁ => -
        polls keys python3 alt :: ▮Deploying?\n▔▔▔▔▔▔▔▔\n  No\n▁▁▁▁▁▁▁▁ => -
        polls keys python3 alt :: Deployed\n<▮ Stop      >\n< Restart   > => -
        polls keys python3 alt :: Project name:\n▊▔▔▔▔▔▔▔▔▎\n▊▮        ▎\n▊▁▁▁▁▁▁▁▁▎ => Text~ Project name:
        polls keys python3 alt :: Requests\n▊▔▔▔▔▔▔▔▔▎\n▊▮        ▎\n▊▁▁▁▁▁▁▁▁▎ => -

        ## a program that is stopped in the background waits; those in the foreground wait for it
        works bash stopped-read :: Continue? [y/N] ▮ => Confirm Continue? [y/N]
        works bash stopped-read :: Name here ▮ => Text Name here
        works bash stopped-read :: ▮ => Text
        works bash stopped-read :: Colour?\n> ▮ => Text Colour?
        # What is a command prompt elsewhere.
        works bash stopped-read :: >>> ▮ => Text >>>
        works bash stopped-setup :: Continue? [y/N] ▮ => Confirm Continue? [y/N]
        works bash stopped-setup :: Name here ▮ => Text Name here
        works bash stopped-setup :: ▮ => Text
        works bash stopped-setup :: Colour?\n> ▮ => Text Colour?
        works bash stopped-setup :: >>> ▮ => Text >>>
        # One that reads has shown its text; one that sets the terminal up may not have.
        works bash stopped-read :: Name below\n▮ => Text Name below
        works bash stopped-setup :: Name below\n▮ => Text
        works bash stopped-read :: Password: ▮ => Password Password:
        works bash stopped-setup :: Password: ▮ => Password! Password:

        ## a program that a signal has stopped asks nothing new
        works bash stopped-signal :: Continue? [y/N] ▮ => -
        works raw bash stopped-signal :: Continue? [y/N] ▮ => -
        # What was asked before.
        reads bash stopped-signal :: Continue? [y/N] ▮ => Confirm Continue? [y/N]
        ",
    );
    // By the text alone, a list may have been printed.
    let plans = "Choose a plan\n❯ Free\n  Pro\n▮";
    assert_eq!(find(&with_cursor(plans, false)), None);
    let lettered = "Choose wisely...\n   a. sword\n   b. shield\n\n> ▮";
    check_kind(lettered, Some(PromptKind::Menu));
}

#[test]
fn a_mark_below_a_frame_is_no_interpreters_prompt() {
    // Whether it was given a script is not known.
    let python = terminal("reads maybe-idle python");
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
    let consoles =
        ">>> ... irb(main):001> sqlite> mysql> redis> app=# 127.0.0.1:6379> ghci> python>";
    for programs in ["python3", "bash python3.12", "perl", "node"] {
        for mark in [">", "Name >", "cmd>", "my-app>"] {
            let asked = |words: &str| {
                let text = format!("Describe the change\n{mark} ▮");
                let found = judged(&text, false, &terminal(&format!("{words} {programs}")));
                found.map(|found| found.prompt.text)
            };
            assert_eq!(asked("reads").as_deref(), Some(mark), "{programs}");
            assert_eq!(asked("reads idle"), None, "{mark}");
            assert_eq!(asked("reads maybe-idle"), None, "{mark}");
        }
        check_terminals(&format!(
            r"reads {programs} :: Which colour?\n> ▮ => Text Which colour?"
        ));
        // Consoles that were given something to run first.
        for mark in consoles.split(' ') {
            check_terminals(&format!("reads {programs} :: {mark} ▮ => -"));
        }
    }
    check_terminals(
        "
        reads mysql :: > ▮ => -
        reads sqlite3 :: > ▮ => -
        reads python3 psql :: > ▮ => -
        # Keys may also be read by a console.
        reads raw python3 :: > ▮ => -
        ",
    );
}

#[test]
fn a_script_that_waits_for_a_while_is_behind_a_mark() {
    for mark in ["Token>", "user name>", "[1] next>>", ">"] {
        check_terminals(&format!(r"polls bash :: ready\n{mark} ▮ => Text~ {mark}"));
        // Another program may print its commands' prompt and go on.
        check_terminals(&format!(r"polls node :: ready\n{mark} ▮ => -"));
    }
    for works in ["[====>▮", "a -> ▮", r"src/a.js >\n▮", "Waiting..▮", "90% ▮"] {
        check_terminals(&format!("polls bash :: {works} => -"));
    }
}

#[test]
fn what_a_user_types_into_a_shell_is_not_asked_for() {
    let asked = |kind: &str, text: &str, programs: &[&str]| {
        let mut task = crate::model::test_notation::task(&format!("@1#1 a running{kind}"));
        task.screen = with_cursor(text, false);
        let terminal = terminal(&format!("reads {}", programs.join(" ")));
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
fn the_rows_that_ask_are_the_question_with_its_choices_and_its_field() {
    #[track_caller]
    fn check(text: &str, terminal: &TtyEvidence, expected: Range<usize>) {
        let found = judged(text, false, terminal).map(|found| found.rows);
        assert_eq!(found, Some(expected), "{text}");
    }
    let (keys, lines) = (polls_keys("node"), terminal("reads"));
    check("built\nGo on? [y/N] ▮", &lines, 1..2);
    check("built\nWhich port?\n\n▮", &lines, 1..4);
    check("built\nWhich port?\n> ▮\n3 tokens", &keys, 1..3);
    check("1 s\n? Kit\n❯ Vue\n  Ink▮", &keys, 1..4);
    check(
        "1 s\n Go on?\n\n ❯ 1. Yes\n   2. No\n\n esc to cancel\n▮",
        &keys,
        1..5,
    );
    check("1 s\n◆  Name:\n│  app▮\n└", &keys, 1..4);
    check(
        "1 s\n ┌─┤ Disk ├──┐\n │ Wipe it?  │\n │   <Yes>  <No>  │\n └───────────┘\n2 s▮",
        &keys,
        1..5,
    );
    // Without text nothing asks.
    check("▮", &lines, 0..0);
    let wide = Screen {
        width: Some(10),
        ..with_cursor("built\nRemove the\n old files\n? [y/N] ▮", false)
    };
    let judgement = judge(&wide, Some(&lines), &UserRules::default());
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
