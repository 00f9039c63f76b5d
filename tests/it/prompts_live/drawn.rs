//! Prompts that are detected by the text alone.

use super::*;

/// A line that draws this, takes keys at once, and polls the terminal, as libraries do.
fn drawing(text: &str) -> String {
    let text = Value::from(text).to_string().replace('\'', "\\x27");
    format!(
        "python3 -c 'import select, tty; print({text}, end=\"\", flush=True); tty.setraw(0); select.select([0], [], [])'"
    )
}

/// What the line draws or runs, with which program, and the reported kind and prompt.
const BY_TEXT: &[(&str, &str, &str, &str)] = &[
    (
        "? Pick a stack (Use <space>)\n❯◯ Vue\n ◯ React",
        "",
        "menu",
        "Pick a stack",
    ),
    ("? Registry token *****", "", "password", "Registry token"),
    (
        "? Which port should be used? ",
        "",
        "text",
        "Which port should be used?",
    ),
    ("Remote path: ", "", "text", "Remote path:"),
    (
        "続行しますか? [はい/いいえ] ",
        "",
        "confirm",
        "続行しますか? [はい/いいえ]",
    ),
    (
        "TASK [web : stop] *****\n[web : stop]\nDrain the node first:\n",
        "",
        "key",
        "Drain the node first:",
    ),
    (
        " Would you like to go on?\n ❯ 1. Yes\n   2. No (esc)\n\n ctrl-g to edit in vim",
        "",
        "menu",
        "Would you like to go on?",
    ),
    (
        "Which way to log in?\n\n❯ 1. JWT\n     Stateless\n  2. Cookies\n\n  12% of the context is used\n",
        "",
        "menu",
        "Which way to log in?",
    ),
    (
        "What should we buy?\n\n> [ ] Carrots\n  [x] Celery\n\nPress q to quit.\n",
        "",
        "menu",
        "What should we buy?",
    ),
    (
        "◆  Pick a stack\n│  ● Vue\n│  ○ React\n└\n1,204 tokens\n",
        "",
        "menu",
        "Pick a stack",
    ),
    (
        "ready\nOverwrite a.txt?\n",
        "",
        "confirm",
        "Overwrite a.txt?",
    ),
    ("பெயர்: ", "", "text", "பெயர்:"),
    ("ឈ្មោះ៖ ", "", "text", "ឈ្មោះ៖"),
    ("รหัสผ่าน: ", "", "password", "รหัสผ่าน:"),
    ("请按任意键继续. . .", "", "key", "请按任意键继续. . ."),
    // The terminal's cursor is hidden, and drawn by the program as an inverse cell.
    (
        "\u{1b}[?25lProject name: \u{1b}[7m \u{1b}[27m\n",
        "",
        "text",
        "Project name:",
    ),
    (
        "\u{1b}[?25lWhat should it be called?\n╭──────────╮\n│\u{1b}[7mm\u{1b}[0;2my-app\u{1b}[0m    │\n╰──────────╯\nany letters\n",
        "",
        "text",
        "What should it be called?",
    ),
    // The cursor is hidden, and nothing is marked.
    (
        "\u{1b}[?25lWhich database?:\n  postgres\n  mysql\n",
        "",
        "menu",
        "Which database?",
    ),
    // A dialog in the middle of a screen, beside other text.
    (
        "\u{1b}[?1049h\u{1b}[?25llog ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄ log\nlog █  Delete the 3 records? █ log\nlog █ ▔▔▔▔▔▔▔▔▔▔  ▔▔▔▔▔▔▔▔▔▔ █ log\nlog █   Delete      Cancel   █ log\nlog █ ▁▁▁▁▁▁▁▁▁▁  ▁▁▁▁▁▁▁▁▁▁ █ log\nlog █▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄█ log\nq quit",
        "",
        "dialog",
        "Delete the 3 records?",
    ),
    (
        "whiptail --title Deploy --yesno \"Shall it go out?\" 8 40",
        "whiptail",
        "dialog",
        "Shall it go out?",
    ),
];

/// These ask nothing: a client's line for commands, reports, logs of servers that take keys, and lists
/// above something newer.
const SAYING: &[&str] = &[
    "not connected> ",
    "epoch 3 loss: ",
    "Server ready: ",
    "ready on 5173\nerror: no export 'x' in ./a. Did you mean 'y'?\n",
    "ready on 5173\nGET /a?b=c?\n",
    "Which kit?\n❯ Vue\n  React\n\n  ➜  press h + enter to show help\n",
    "\u{1b}[?25lFiles changed:\n  a.txt\n  b.txt\n",
    "\u{1b}[?25lDone. What next?\n\n╭──────╮\n│ > \u{1b}[7m \u{1b}[27m  │\n╰──────╯\n  ? for shortcuts\n",
    "\u{1b}[?1049h\u{1b}[?25lWorkers\n\n [ Start ]  [ Stop ]  [ Refresh ]\n\n 1 busy\nq quit",
    "Which kit?\n❯ Vue\n  React\n\nCreated app\n╭────╮\n│ >  │\n╰────╯\n",
];

#[test]
fn libraries_and_dialogs_are_reported_with_their_questions() {
    if !is_installed("python3") {
        eprintln!("skipped: there is no python3");
        return;
    }
    let world = World::new();
    for (n, text) in SAYING.iter().enumerate() {
        world.run(&format!("say{n}"), &drawing(text));
    }
    world.run("follow", "printf 'Continue? [y/N] ' > log; tail -f log");
    let mut expected = BTreeMap::new();
    for (n, (text, program, kind, prompt)) in BY_TEXT.iter().enumerate() {
        let name = format!("ask{n}");
        if program.is_empty() {
            world.run(&name, &drawing(text));
        } else if is_installed(program) {
            world.run(&name, text);
        } else {
            continue;
        }
        expected.insert(name, (*kind, *prompt));
    }
    let told = world.until("every question is told", |told| {
        let tasks: BTreeSet<&str> = told.iter().map(|told| told.task.as_str()).collect();
        expected.keys().all(|name| tasks.contains(name.as_str()))
    });
    for told in &told {
        let asked = (told.kind.as_str(), told.prompt.as_str());
        assert_eq!(expected.get(&told.task), Some(&asked), "{told:?}");
        assert_eq!(told.secret, told.kind == "password", "{told:?}");
    }
    // What only says something has stood as long as what asks, and is judged as saying it.
    let saying = (0..SAYING.len()).map(|n| format!("say{n}"));
    for name in saying.chain(["follow".to_owned()]) {
        world.until(&format!("{name} stands and asks nothing"), |_| {
            let explained = world.json(&["explain", &name, "--json"]);
            explained["line"].is_string()
                && explained["state"] == "working"
                && explained["quietMs"].as_u64().is_some_and(|ms| ms > 300)
        });
    }
}
