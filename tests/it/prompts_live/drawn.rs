//! Prompts that are detected by the text alone.

use super::*;

/// A line that draws this, takes keys at once, and polls the terminal, as libraries do.
fn drawing(text: &str) -> String {
    let text = text.replace("\\n", "\n").replace("\\s", " ");
    let text = text.replace("\\e", "\u{1b}");
    let text = Value::from(text).to_string().replace('\'', "\\x27");
    format!(
        "python3 -c 'import select, tty; print({text}, end=\"\", flush=True); tty.setraw(0); select.select([0], [], [])'"
    )
}

/// The reported kind and prompt, and what is drawn. In the first three from below the terminal's cursor
/// is hidden: twice it is drawn as an inverse cell, and once nothing is marked. The last one is a dialog
/// in the middle of a screen, beside other text.
const BY_TEXT: &str = r"
menu | Pick a stack | ? Pick a stack (Use <space>)\n❯◯ Vue\n ◯ React
password | Registry token | ? Registry token *****
text | Which port should be used? | ? Which port should be used?\s
text | Remote path: | Remote path:\s
confirm | 続行しますか? [はい/いいえ] | 続行しますか? [はい/いいえ]\s
key | Drain the node first: | TASK [web : stop] *****\n[web : stop]\nDrain the node first:\n
menu | Would you like to go on? |  Would you like to go on?\n ❯ 1. Yes\n   2. No (esc)\n\n ctrl-g to edit in vim
menu | Which way to log in? | Which way to log in?\n\n❯ 1. JWT\n     Stateless\n  2. Cookies\n\n  12% of the context is used\n
menu | What should we buy? | What should we buy?\n\n> [ ] Carrots\n  [x] Celery\n\nPress q to quit.\n
menu | Pick a stack | ◆  Pick a stack\n│  ● Vue\n│  ○ React\n└\n1,204 tokens\n
confirm | Overwrite a.txt? | ready\nOverwrite a.txt?\n
text | பெயர்: | பெயர்:\s
text | ឈ្មោះ៖ | ឈ្មោះ៖\s
password | รหัสผ่าน: | รหัสผ่าน:\s
key | 请按任意键继续. . . | 请按任意键继续. . .
text | Project name: | \e[?25lProject name: \e[7m \e[27m\n
text | What should it be called? | \e[?25lWhat should it be called?\n╭──────────╮\n│\e[7mm\e[0;2my-app\e[0m    │\n╰──────────╯\nany letters\n
menu | Which database? | \e[?25lWhich database?:\n  postgres\n  mysql\n
dialog | Delete the 3 records? | \e[?1049h\e[?25llog ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄ log\nlog █  Delete the 3 records? █ log\nlog █ ▔▔▔▔▔▔▔▔▔▔  ▔▔▔▔▔▔▔▔▔▔ █ log\nlog █   Delete      Cancel   █ log\nlog █ ▁▁▁▁▁▁▁▁▁▁  ▁▁▁▁▁▁▁▁▁▁ █ log\nlog █▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄█ log\nq quit
";

/// These ask nothing: a client's line for commands, reports, logs of servers that take keys, and lists
/// above something newer.
const SAYING: &str = r"
not connected>\s
epoch 3 loss:\s
Server ready:\s
ready on 5173\nerror: no export 'x' in ./a. Did you mean 'y'?\n
ready on 5173\nGET /a?b=c?\n
Which kit?\n❯ Vue\n  React\n\n  ➜  press h + enter to show help\n
\e[?25lFiles changed:\n  a.txt\n  b.txt\n
\e[?25lDone. What next?\n\n╭──────╮\n│ > \e[7m \e[27m  │\n╰──────╯\n  ? for shortcuts\n
\e[?1049h\e[?25lWorkers\n\n [ Start ]  [ Stop ]  [ Refresh ]\n\n 1 busy\nq quit
Which kit?\n❯ Vue\n  React\n\nCreated app\n╭────╮\n│ >  │\n╰────╯\n
";

/// The rows of a table, with names.
fn named(name: &str, table: &'static str) -> Vec<(String, &'static str)> {
    let rows = table.lines().filter(|row| !row.is_empty()).enumerate();
    rows.map(|(n, row)| (format!("{name}{n}"), row)).collect()
}

#[test]
fn libraries_and_dialogs_are_reported_with_their_questions() {
    if !is_installed("python3") {
        return;
    }
    let world = World::new();
    let mut saying = named("say", SAYING);
    for (name, text) in &saying {
        world.run(name, &drawing(text));
    }
    world.run("follow", "printf 'Continue? [y/N] ' > log; tail -f log");
    saying.push(("follow".to_owned(), ""));
    let asking = named("ask", BY_TEXT);
    let mut expected = BTreeMap::new();
    for (name, row) in &asking {
        let columns: Vec<&str> = row.splitn(3, " | ").collect();
        let [kind, prompt, text] = columns[..] else {
            panic!("{row}");
        };
        world.run(name, &drawing(text));
        expected.insert(name.as_str(), (kind, prompt));
    }
    if is_installed("whiptail") {
        let line = "whiptail --title Deploy --yesno 'Shall it go out?' 8 40";
        world.run("whiptail", line);
        expected.insert("whiptail", ("dialog", "Shall it go out?"));
    }
    let told = world.until_told(expected.keys().copied());
    for told in &told {
        let asked = (told.kind.as_str(), told.prompt.as_str());
        assert_eq!(expected.get(&*told.task), Some(&asked), "{told:?}");
        assert_eq!(told.secret, told.kind == "password", "{told:?}");
    }
    // What only says something has stood as long as what asks, and is judged as saying it.
    for (name, _) in saying {
        world.until(&format!("{name} stands and asks nothing"), |_| {
            let explained = world.explain(&name);
            explained["line"].is_string()
                && explained["state"] == "working"
                && explained["quietMs"].as_u64().is_some_and(|ms| ms > 300)
        });
    }
}
