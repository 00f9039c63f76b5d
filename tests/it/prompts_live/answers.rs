//! Programs that ask for input, are answered and continue; and prompts that a user has muted.

use super::*;

#[test]
fn a_question_that_counts_down_is_reported_once() {
    let world = World::new();
    let dialog = is_installed("dialog").then_some("dialog");
    if let Some(dialog) = dialog {
        // Its number is in a frame of its own, and it sleeps between two looks at the keyboard.
        world.run(dialog, "dialog --pause 'Restarting. Stop it?' 10 50 300");
    }
    let questions = [
        ("line", "Going on in $n s. Stop? [y/N]", ""),
        ("key", "Press any key to abort: $n", "-n 1 -s"),
    ];
    for (task, question, read) in questions {
        let line = format!(
            "for n in 9 8 7 6 5 4 3 2 1; do printf '\\r%s ' \"{question}\"; \
             read -t 0.5 {read} x && break; done; touch {task}; sleep 1000"
        );
        world.run(task, &line);
    }
    let tasks = questions.map(|(task, ..)| task);
    let told = world.until("both have counted to the end", |told| {
        let is_over = |task: &&str| world.file(task).is_file() && events_of(told, task).len() >= 2;
        let asks = |dialog| !events_of(told, dialog).is_empty();
        tasks.iter().all(is_over) && dialog.is_none_or(asks)
    });
    are_told(&told, dialog, &["input"]);
    are_told(&told, tasks, &ONCE);
}

/// Draws one of these characters after the other beside a text.
const TURNS: &str = r"
import itertools, select, sys, time, tty
frames, text, every, n = sys.argv[1:]
tty.setcbreak(0)
for n, c in zip(range(int(n)), itertools.cycle(frames)):
    print(end='\r' + text % c, flush=True)
    if select.select([0], [], [], float(every))[0]: break
print('\nended', flush=True)
time.sleep(1000)
";

/// Prints while a thread reads, which asks when it has read `stop`.
const SERVER: &str = r"
import os, threading, time
def console():
    while input() != 'stop': pass
    print('Really stop? [y/N]', end=' ', flush=True)
    input()
threading.Thread(target=console, daemon=True).start()
for n in range(9):
    print('player', n, 'has joined', flush=True)
    time.sleep(0.3)
open('printed', 'w').close()
time.sleep(1000)
";

#[test]
fn a_prompt_with_an_animated_part_is_reported_once_and_output_beside_a_reader_never() {
    if !is_installed("python3") {
        return;
    }
    let world = World::new();
    world.write("turns.py", TURNS);
    world.write("server.py", SERVER);
    for (task, args) in [
        ("slow", r"'|/-\' '%s Press any key to continue' 0.5 12"),
        ("fast", "'⠋⠙⠹⠸' '[%s] Remove everything? (y/n)' 0.05 90"),
        ("works", r"'|/-\' '%s Building' 0.05 90"),
    ] {
        world.run(task, &format!("python3 turns.py {args}"));
    }
    world.run("server", "python3 server.py");
    let told = world.until(
        "the prompts have gone, and the server has printed all",
        |told| {
            let are_over = |task| events_of(told, task).contains(&"inputResolved");
            are_over("slow") && are_over("fast") && world.file("printed").is_file()
        },
    );
    are_told(&told, ["slow", "fast"], &ONCE);
    are_told(&told, ["works", "server"], &[]);
    // A question after it has read a line is a prompt.
    world.call("send server stop").ok();
    let told = world.until_told(["server"].into_iter());
    are_told(&told, ["server"], &["input"]);
    assert_eq!(
        told.last().unwrap().prompt,
        "Really stop? [y/N]",
        "{told:#?}"
    );
}

#[test]
fn a_question_that_is_wrapped_is_reported_and_answered_whole() {
    let world = World::new();
    let question = "Do you really want to permanently remove every single volume of the project \
                    shop-eu, including the backups? [y/N]";
    let line = format!("read -p '{question} ' answer; echo \"got $answer\"; sleep 1000");
    let window = world.run("volumes", &line);
    let secret = "Enter the passphrase that protects the private key of the deployment user of \
                  production_eu_west_1:";
    world.run("key", &format!("read -s -p '{secret} ' answer; sleep 1000"));
    let told = world.until("both ask", |told| told.len() >= 2);
    for (task, kind, prompt) in [
        ("volumes", "confirm", question),
        ("key", "password", secret),
    ] {
        let told = told.iter().find(|told| told.task == task).unwrap();
        assert_eq!((told.kind.as_str(), told.prompt.as_str()), (kind, prompt));
    }
    world
        .task(["send", "volumes", "--if-prompt", question, "n"])
        .ok();
    world.until_shows(&window, "got n");
}

#[test]
fn answers_end_episodes_and_secrets_leave_no_trace() {
    let world = World::new();
    let line = "read -p 'Colour? ' x; echo \"it is $x\"; read -p 'Size? ' y; sleep 1000";
    world.run("ask", line);
    // Nothing is printed when it is answered.
    world.run(
        "silent",
        "read -s -p 'Word ' x; touch \"word-${#x}\"; sleep 1000",
    );
    world.until("both ask", |told| told.len() == 2);

    world.call("send ask --if-prompt Color? red").fails_with(1);
    world.call("send ask --if-prompt Colour? 'dark red'").ok();
    let secret = ["send", "silent", "--secret"];
    world.task_reading("open sesame; $(x)\n", secret).ok();
    let told = world.until("the next question", |told| told.len() == 5);
    let of = |task: &str| -> Vec<(&str, &str)> {
        let of_task = told.iter().filter(|told| told.task == task);
        of_task
            .map(|told| (told.what.as_str(), told.prompt.as_str()))
            .collect()
    };
    let (asked, answered) = (("input", "Colour?"), ("inputResolved", "Colour?"));
    assert_eq!(of("ask"), [asked, answered, ("input", "Size?")]);
    assert_eq!(of("silent"), [("input", "Word"), ("inputResolved", "Word")]);
    world.until("the word has arrived", |_| world.file("word-17").is_file());
    let mut grep = world.command("grep");
    grep.args(["-rls", "sesame"]).arg(world.path(""));
    assert_eq!(Output::of(grep).out, "");
    let log = world.tmux(["show-messages"]);
    assert!(!log.contains("sesame"), "{log}");

    let explained = world.explain("ask");
    assert_eq!(explained["state"], "waiting");
    assert_eq!(explained["prompt"], "Size?");
    assert_eq!(explained["terminal"]["reader"], "reading");
}

#[test]
fn muted_prompts_are_not_reported() {
    let world = World::new();
    world.configure("notices = []\n[input]\nignore = ['^beta']\nmute-tasks = ['quiet']\n");
    world.run("quiet", "read -p 'Go on? ' x");
    world.run("beta", "read -p 'beta? ' x");
    world.until("they ask", |_| {
        world.explain("quiet")["state"] == "muted"
            && world.explain("beta")["rule"] == "muted by a pattern"
    });
    // Who asks later is reported later.
    world.run("loud", "read -p 'gamma? ' x");
    let told = world.until("one asks", |told| !told.is_empty());
    assert!(told.iter().all(|told| told.task == "loud"), "{told:?}");
}
