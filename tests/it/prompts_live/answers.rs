//! Programs that ask for input, are answered and continue.

use super::*;

#[test]
fn the_same_question_is_reported_again_after_an_answer() {
    let world = World::new();
    world.run(
        "next",
        "for k in 1 2 3 4 5; do read -p 'Next? ' x; echo \"step $k\"; done; sleep 1000",
    );
    world.run(
        "login",
        "for k in 1 2 3 4 5; do read -s -p 'Password:' x; echo; echo 'Sorry, try again.'; done; sleep 1000",
    );
    for n in 1..=5 {
        for (task, prompt) in [("next", "Next?"), ("login", "Password:")] {
            world.until(&format!("{task} asks for the {n}th time"), |told| {
                let asked = told
                    .iter()
                    .filter(|told| told.task == task && told.what == "input");
                asked.filter(|told| told.prompt == prompt).count() == n
            });
            let sent = world.call(&["send", task, "word"]);
            assert!(sent.status.success(), "{sent:?}");
        }
    }
    let told = world.until("all are answered", |told| told.len() >= 20);
    for task in ["next", "login"] {
        let of_task: Vec<&str> = told
            .iter()
            .filter(|told| told.task == task)
            .map(|told| told.what.as_str())
            .collect();
        assert_eq!(of_task, ["input", "inputResolved"].repeat(5), "{told:#?}");
    }
}

#[test]
fn a_question_that_counts_down_is_reported_once() {
    let world = World::new();
    let counts = |question: &str, read: &str, ended: &str| {
        format!(
            "for n in 9 8 7 6 5 4 3 2 1; do printf '\\r%s ' \"{question}\"; read -t 0.5 {read} x && break; done; touch {ended}; sleep 1000"
        )
    };
    let has_dialog = is_installed("dialog");
    if has_dialog {
        // Its number is in a frame of its own, and it sleeps between two looks at the keyboard.
        world.run("dialog", "dialog --pause 'Restarting. Stop it?' 10 50 300");
    }
    let questions = [
        ("line", "Going on in $n s. Stop? [y/N]", ""),
        ("key", "Press any key to abort: $n", "-n 1 -s"),
    ];
    for (task, question, read) in questions {
        world.run(task, &counts(question, read, task));
    }
    let told = world.until("both have counted to the end", |told| {
        let resolved = told.iter().filter(|told| told.what == "inputResolved");
        let ended = questions.map(|(task, ..)| world.dir.path().join(task).is_file());
        let of_dialog = events_of(told, "dialog").len();
        ended == [true; 2]
            && resolved.count() >= 2
            && (told.len() - of_dialog).is_multiple_of(2)
            && (of_dialog > 0 || !has_dialog)
    });
    let expected = if has_dialog { &["input"][..] } else { &[] };
    assert_eq!(events_of(&told, "dialog"), expected, "{told:#?}");
    for (task, ..) in questions {
        assert_eq!(
            events_of(&told, task),
            ["input", "inputResolved"],
            "{told:#?}"
        );
    }
}

#[test]
fn a_prompt_with_an_animated_part_is_reported_once() {
    if !is_installed("python3") {
        eprintln!("skipped: there is no python3");
        return;
    }
    let world = World::new();
    let program = "import itertools, select, sys, time, tty\n\
                   frames, text, every, n = sys.argv[1:]\n\
                   tty.setcbreak(0)\n\
                   for n, c in zip(range(int(n)), itertools.cycle(frames)):\n\
                   \x20   print(end='\\r' + text % c, flush=True)\n\
                   \x20   if select.select([0], [], [], float(every))[0]: break\n\
                   print('\\nended', flush=True)\n\
                   time.sleep(1000)\n";
    std::fs::write(world.dir.path().join("turns.py"), program).unwrap();
    let tasks = [
        ("slow", r"|/-\", "%s Press any key to continue", "0.5", "12"),
        (
            "fast",
            "⠋⠙⠹⠸",
            "[%s] Remove everything? (y/n)",
            "0.05",
            "90",
        ),
    ];
    for (task, frames, text, every, n) in tasks {
        world.run(
            task,
            &format!("python3 turns.py '{frames}' '{text}' {every} {n}"),
        );
    }
    world.run("works", r"python3 turns.py '|/-\' '%s Building' 0.05 90");
    let told = world.until("the prompts have gone", |told| {
        tasks
            .iter()
            .all(|(task, ..)| events_of(told, task).contains(&"inputResolved"))
    });
    for (task, ..) in tasks {
        assert_eq!(
            events_of(&told, task),
            ["input", "inputResolved"],
            "{told:#?}"
        );
    }
    assert_eq!(events_of(&told, "works"), [""; 0], "{told:#?}");
}

#[test]
fn a_program_that_prints_while_a_thread_reads_is_reported_only_when_it_asks() {
    if !is_installed("python3") {
        eprintln!("skipped: there is no python3");
        return;
    }
    let world = World::new();
    let program = "import os, threading, time\n\
                   def console():\n    while input() != 'stop': pass\n    print('Really stop? [y/N]', end=' ', flush=True)\n    input()\n\
                   threading.Thread(target=console, daemon=True).start()\n\
                   for n in range(9):\n    print('player', n, 'has joined', flush=True)\n    time.sleep(0.3)\n\
                   open('printed', 'w').close()\ntime.sleep(1000)\n";
    std::fs::write(world.dir.path().join("server.py"), program).unwrap();
    world.run("server", "python3 server.py");
    let told = world.until("it has printed all", |_| {
        world.dir.path().join("printed").is_file()
    });
    assert_eq!(told, [], "{told:#?}");
    // A question after it has read a line is a prompt.
    let sent = world.call(&["send", "server", "stop"]);
    assert!(sent.status.success(), "{sent:?}");
    let told = world.until("it asks", |told| !told.is_empty());
    assert_eq!(told.len(), 1, "{told:#?}");
    assert_eq!(told[0].prompt, "Really stop? [y/N]", "{told:#?}");
}

#[test]
fn a_question_that_is_wrapped_is_reported_and_answered_whole() {
    let world = World::new();
    let question = "Do you really want to permanently remove every single volume of the project \
                    shop-eu, including the backups? [y/N]";
    world.run(
        "volumes",
        &format!("read -p '{question} ' answer; echo \"got $answer\"; sleep 1000"),
    );
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
    let sent = world.call(&["send", "volumes", "--if-prompt", question, "n"]);
    assert!(sent.status.success(), "{sent:?}");
    world.until("it has the answer", |_| {
        let output = world.call(&["logs", "volumes"]);
        String::from_utf8(output.stdout).unwrap().contains("got n")
    });
}

#[test]
fn apt_asks_before_it_removes_and_goes_by_the_answer() {
    if !is_installed("apt-get") {
        eprintln!("skipped: there is no apt-get");
        return;
    }
    let world = World::new();
    let settings = apt_of_its_own(&world.dir.path().join("apt"));
    world.run(
        "apt",
        &format!("APT_CONFIG={settings} apt-get remove demo || echo \"ended with $?\"; sleep 1000"),
    );
    let told = world.until("it asks", |told| !told.is_empty());
    let expected = PromptEvent {
        task: "apt".to_owned(),
        what: "input".to_owned(),
        kind: "confirm".to_owned(),
        prompt: "Do you want to continue? [Y/n]".to_owned(),
        secret: false,
    };
    assert_eq!(told, [expected]);
    let sent = world.call(&["send", "apt", "--if-prompt", &told[0].prompt, "n"]);
    assert!(sent.status.success(), "{sent:?}");
    let told = world.until("it is answered", |told| told.len() > 1);
    assert_eq!(told[1].what, "inputResolved", "{told:?}");
    world.until("it goes by the answer", |_| {
        let output = world.call(&["logs", "apt"]);
        let output = String::from_utf8(output.stdout).unwrap();
        output.contains("Abort.\nended with 1\n")
    });
}

/// Makes an apt that knows one package, which is installed nowhere but in its own lists, and needs
/// neither the network nor the system's; returns the path of its settings.
fn apt_of_its_own(root: &Path) -> String {
    for folder in [
        "state/lists/partial",
        "cache/archives/partial",
        "etc/apt.conf.d",
        "etc/preferences.d",
        "etc/sources.list.d",
        "dpkg/info",
        "dpkg/updates",
        "log",
    ] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    let package = "Package: demo\nStatus: install ok installed\nMaintainer: A <a@b.c>\n\
                   Architecture: all\nVersion: 1\nDescription: nothing\n";
    std::fs::write(root.join("dpkg/status"), package).unwrap();
    let root = root.display();
    let settings = format!(
        "Dir \"{root}\";\nDir::State \"state\";\nDir::State::status \"{root}/dpkg/status\";\n\
         Dir::Cache \"cache\";\nDir::Etc \"etc\";\nDir::Log \"log\";\n\
         Dir::Bin::dpkg \"/bin/false\";\n"
    );
    let path = format!("{root}/apt.conf");
    std::fs::write(&path, settings).unwrap();
    path
}

#[test]
fn sudo_asks_for_a_password() {
    let world = World::new();
    let line = match sudo_that_asks(&world) {
        Ok(line) => line,
        Err(why) => {
            eprintln!("skipped: {why}");
            return;
        }
    };
    world.run("sudo", &format!("{line} || true; sleep 1000"));
    let told = world.until("it asks", |told| !told.is_empty());
    let [asked] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!((asked.kind.as_str(), asked.secret), ("password", true));
    assert!(
        asked.prompt.starts_with("[sudo] password for "),
        "{asked:?}"
    );
    // No password is tried.
    let sent = world.call(&["send", "sudo", "--no-enter", "--key", "C-c"]);
    assert!(sent.status.success(), "{sent:?}");
    let told = world.until("it gave up", |told| told.len() > 1);
    assert_eq!(told[1].what, "inputResolved", "{told:?}");
}

/// Returns a command that makes sudo ask, or why there is none. Root is asked nothing, so it is
/// tried as a user who has no rights at all.
fn sudo_that_asks(world: &World) -> Result<String, String> {
    if !is_installed("sudo") {
        return Err("there is no sudo".to_owned());
    }
    let become_nobody = if rustix::process::geteuid().is_root() {
        "setpriv --reuid=65534 --regid=65534 --clear-groups "
    } else {
        ""
    };
    let tried = world
        .command("sh")
        .args(["-c", &format!("{become_nobody}sudo -k -n id")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&tried.stderr).into_owned();
    if said.contains("a password is required") {
        Ok(format!("{become_nobody}sudo -k id"))
    } else {
        Err(format!("sudo asks for no password here: {said}"))
    }
}

#[test]
fn answers_end_episodes_and_secrets_leave_no_trace() {
    let world = World::new();
    world.run(
        "ask",
        "read -p 'Colour? ' x; echo \"it is $x\"; read -p 'Size? ' y; sleep 1000",
    );
    // Nothing is printed when it is answered.
    world.run(
        "hush",
        "read -s -p 'Word ' x; touch \"word-${#x}\"; sleep 1000",
    );
    world.until("both ask", |told| told.len() == 2);

    let refused = world.call(&["send", "ask", "--if-prompt", "Color?", "red"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let sent = world.call(&["send", "ask", "--if-prompt", "Colour?", "dark red"]);
    assert!(sent.status.success(), "{sent:?}");
    world.send_secret("hush", "open sesame; $(x)\n");
    let told = world.until("the next question", |told| {
        let is = |task: &str, what: &str, prompt: &str| {
            told.iter()
                .any(|told| told.task == task && told.what == what && told.prompt == prompt)
        };
        is("ask", "inputResolved", "Colour?")
            && is("ask", "input", "Size?")
            && is("hush", "inputResolved", "Word")
    });
    assert_eq!(told.len(), 5, "{told:#?}");
    world.until("the word has arrived", |_| {
        world.dir.path().join("word-17").is_file()
    });
    let grep = world
        .command("grep")
        .args(["-rl", "sesame", "."])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&grep.stdout), "");
    let log = world.command("tmux").arg("show-messages").output().unwrap();
    assert!(!String::from_utf8_lossy(&log.stdout).contains("sesame"));

    let explained = world.json(&["explain", "ask", "--json"]);
    assert_eq!(explained["state"], "waiting");
    assert_eq!(explained["prompt"], "Size?");
    assert_eq!(explained["terminal"]["reader"], "reading");
}
