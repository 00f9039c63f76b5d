//! Sinks: programs and addresses that get the feed's records.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{World, begins, has, texts};

/// Configures these sinks, and no notices.
fn configure(world: &World, sinks: &str) {
    world.configure(&format!("notices = []\n{sinks}"));
}

/// What `daemon status` says of this sink.
fn sink(world: &World, name: &str) -> Value {
    let status = world.daemon_status();
    let mut sinks = status["sinks"].as_array().unwrap().iter();
    sinks.find(|one| one["name"] == name).unwrap().clone()
}

#[track_caller]
fn until_delivered(world: &World, name: &str, n: u64) {
    world.until_true(&format!("{name} has delivered {n}"), || {
        sink(world, name)["delivered"] == n
    });
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn a_program_gets_each_record_until_it_takes_it() {
    let world = World::new();
    let (out, taken, all) = (world.path("out"), world.path("taken"), world.path("all"));
    // It takes nothing before the file is there.
    let script = format!(
        "#!/bin/sh\nread -r record\n\
         echo \"$1 $TMUX_TASK_RECORD $TMUX_TASK_KIND $TMUX_TASK_LEVEL $TMUX_TASK_TASKS $SECRET\" >>'{}'\n\
         test -e '{}' || {{ echo 'not now' >&2; exit 9; }}\n",
        out.display(),
        taken.display()
    );
    let script = world.script("sink", &script).display().to_string();
    configure(
        &world,
        &format!(
            "[[sink]]\nname = 'late'\nexec = ['{script}', 'a $(b)']\nkinds = ['followUp']\n\
             [[sink]]\nname = 'broken'\nexec = ['/no/such/program']\n\
             [[sink]]\nname = 'all'\nshell = 'cat >>{}'\ntasks = ['one', 'two']\nkinds = ['event']\ntypes = ['exited']\n",
            all.display()
        ),
    );
    // Who starts the daemon keeps their secrets.
    let secret = [("SECRET", "secret")];
    world
        .task_with(&secret, ["run", "one", "--", "exit 3"])
        .ok();
    world.until_true("the sink has refused", || {
        sink(&world, "late")["failed"].as_u64() > Some(0)
    });
    // A broken sink holds no other up.
    let until_all_has = |n: usize| world.until_true("`all` has them", || lines(&all).len() == n);
    until_all_has(1);
    let late = sink(&world, "late");
    assert_eq!(late["error"], "exit status: 9: not now");
    assert!(late["lag"].as_u64() > Some(0), "{late}");
    let broken = sink(&world, "broken")["error"].take();
    let why = "could not start `/no/such/program`";
    begins(broken.as_str().unwrap(), why);
    let shown = world.task(["daemon", "status"]);
    has(shown.ok(), "sink late (exec): 0 delivered, ");
    has(shown.ok(), ": exit status: 9: not now\n");
    // `doctor` says which one is stuck and why.
    let report = || world.task(["doctor"]).ok().to_owned();
    for (start, part, end) in [
        (
            "warn  sinks        `late`: ",
            " behind, the first for ",
            ": exit status: 9: not now",
        ),
        (
            "ok    sinks        `all`: ",
            "",
            " delivered, nothing behind",
        ),
        // Their consumers are not counted among those of programs.
        ("ok    consumers    none", "", ""),
    ] {
        let is_it =
            |line: &str| line.starts_with(start) && line.contains(part) && line.ends_with(end);
        world.until_true(&format!("{start}{part}{end}"), || {
            report().lines().any(is_it)
        });
    }
    has(report(), "; the last attempt failed ");
    has(report(), "exit code 0");
    // The next daemon goes on where this one was.
    world.task(["daemon", "stop"]).ok();
    fs::write(&taken, "").unwrap();
    world.run("two", "exit 4");
    until_delivered(&world, "late", 2);
    let got = lines(&out);
    for (line, name) in [(got.first(), "one"), (got.last(), "two")] {
        let line = line.unwrap();
        begins(line, "a $(b) ");
        let end = format!(" followUp warning {name} ");
        assert!(line.ends_with(&end), "{got:?}");
    }
    until_all_has(2);
    for (line, code) in lines(&all).iter().zip([3, 4]) {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["type"], "exited");
        assert_eq!(record["task"]["exitCode"], code, "{record}");
    }
    // One that is taken out leaves nothing pending.
    let check_consumers = |expected: &[&str]| {
        let list = world.json(["consumer", "ls", "--json"]);
        let consumers = list["consumers"].as_array().unwrap();
        assert_eq!(texts(consumers, "name"), expected);
    };
    check_consumers(&["sink:all", "sink:broken", "sink:late"]);
    world.task(["daemon", "stop"]).ok();
    configure(&world, "");
    world.daemon();
    check_consumers(&[]);
}

#[cfg(feature = "webhook")]
mod webhook {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use ring::hmac;

    use super::*;
    use crate::support::{HttpServer, blocks, lacks, set_mode};

    const KEY: &str = "a key that only this test has";

    fn write_key(path: &Path) {
        fs::write(path, format!("{KEY}\n")).unwrap();
        set_mode(path, 0o600);
    }

    /// The sinks in the examples of these pages of the documentation.
    fn examples(pages: &[&str]) -> String {
        let blocks = pages.iter().flat_map(|page| blocks(page, "toml"));
        blocks
            .filter(|block| block.starts_with("[[sink]]"))
            .collect()
    }

    #[test]
    fn the_examples_of_the_documentation_take_what_they_get() {
        let mut world = World::new();
        let server = HttpServer::start([]);
        let home = world.path("home");
        for folder in [".config/tmux-task", "src/api"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        write_key(&home.join(".config/tmux-task/ci.key"));
        for program in ["mail", "gemini", "acpx"] {
            let called = world.path(program).display().to_string();
            world.install(program, &format!("echo \"$*: $(tail -n +2)\" >>'{called}'"));
        }
        let sinks = examples(&["sinks.md", "agents.md"])
            .replace("/home/you", home.to_str().unwrap())
            .replace("https://ci.example.org", &server.address());
        configure(&world, &sinks);
        let names = ["log", "phone", "ci", "gemini-api", "acp-api"];
        assert_eq!(sinks.matches("[[sink]]").count(), names.len(), "{sinks}");
        for (name, owner, line) in [
            ("fine", "", "true"),
            ("one", "gemini:api", "exit 3"),
            ("two", "acp:api", "exit 4"),
        ] {
            world.task_as(owner, ["run", name, "--", line]).ok();
        }
        let called = |program: &str| lines(&world.path(program)).join("\n");
        world.until_true("each sink has taken its records", || {
            names.iter().all(|name| {
                let sink = sink(&world, name);
                assert_eq!(sink["failed"], 0, "{sink}");
                sink["lag"] == 0 && sink["delivered"].as_u64() > Some(0)
            }) && lines(&home.join("tasks.jsonl")).len() > 3
                && called("mail").contains("-s two")
                && called("acpx").contains("(two)")
        });
        has(called("mail"), "-s one you@example.org: tmux task");
        lacks(called("mail"), "fine");
        has(called("gemini"), "--resume latest: tmux task");
        lacks(called("gemini"), "(two)");
        has(called("acpx"), "(two) exited with code 4");
    }

    #[test]
    fn an_address_gets_signed_records_until_it_takes_them() {
        let world = World::new();
        // What is no success is no receipt, and a redirect is not followed.
        let server = HttpServer::start([302, 204]);
        let key = world.path("key");
        write_key(&key);
        let (address, key) = (server.address(), key.display());
        configure(
            &world,
            &format!(
                "[[sink]]\nname = 'w'\nwebhook = '{address}/hook?a=1'\n\
                 secret-file = '{key}'\nkinds = ['followUp']\nlevel = 'warning'\n"
            ),
        );
        world.task(["run", "fine", "--wait", "--", "true"]).ok();
        world.run("one", "exit 3");
        let refused = server.next();
        world.until_true("the sink knows", || {
            sink(&world, "w")["error"] == "the answer was 302"
        });
        let request = server.next();
        until_delivered(&world, "w", 1);
        assert_eq!(sink(&world, "w")["error"], Value::Null);
        assert_eq!(request.line, "POST /hook?a=1 HTTP/1.1\r\n");
        assert_eq!(request.body, refused.body);
        let record: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!(record["kind"], "followUp");
        let content = record["message"]["content"].as_str().unwrap();
        has(content, "(one) exited with code 3");
        let header = |name: &str| request.headers[name].as_str();
        assert_eq!(header("content-type"), "application/json");
        let id = format!("{}:{}", record["epoch"].as_str().unwrap(), record["seq"]);
        assert_eq!(header("webhook-id"), id);
        let signed = format!("{id}.{}.{}", header("webhook-timestamp"), request.body);
        let signature = header("webhook-signature").strip_prefix("v1,").unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, KEY.as_bytes());
        let signature = STANDARD.decode(signature).unwrap();
        hmac::verify(&key, signed.as_bytes(), &signature).unwrap();
        // Neither the key nor the address is shown to anybody.
        let log = world.until_logged("the answer was 302");
        let shown = format!("{log}{}", world.task(["daemon", "status"]).ok());
        for secret in [KEY, "/hook"] {
            lacks(&shown, secret);
        }
    }

    #[test]
    fn a_message_is_sent_as_its_settings_say_and_its_secrets_are_not_shown() {
        let mut world = World::new();
        world.set("TMUX_TASK_LOG", "trace");
        let server = HttpServer::start([500]);
        let address = server.address();
        configure(
            &world,
            &format!(
                "[[sink]]\nname = 'chat'\nwebhook = '{address}/topic-4711'\n\
                 title = 'failed: {{tasks}}'\nlevel = 'warning'\n\
                 headers = {{ Authorization = 'Bearer tk_4711', Tags = '{{tasks}},{{level}}' }}\n\
                 body = '{{\"t\":\"{{title}}\",\"m\":\"{{text}}\"}}'\n"
            ),
        );
        let hostile =
            "printf '\"}\\\\\\r\\nX-Evil: 1\\033]0;t\\007 {text} gr\\303\\274n\\n'; exit 3";
        world.run("tests", hostile);
        let (refused, request) = (server.next(), server.next());
        assert_eq!(refused.body, request.body);
        for (name, value) in [
            ("authorization", "Bearer tk_4711"),
            ("tags", "tests,warning"),
            ("content-type", "application/json"),
        ] {
            assert_eq!(request.headers[name], value);
        }
        assert!(!request.headers.contains_key("x-evil"));
        let body: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!(body["t"], "failed: tests");
        let text = body["m"].as_str().unwrap();
        begins(text, "tmux task @1 (tests) exited with code 3\n");
        has(text, "X-Evil: 1 {text} grün");
        until_delivered(&world, "chat", 1);
        let faces = [
            &["config", "show"][..],
            &["config", "example"],
            &["daemon", "status", "--json"],
            &["doctor"],
        ];
        let faces = faces.map(|face| world.task(face).to_string());
        let shown = world.log() + &faces.concat();
        has(&shown, "the answer was 500");
        for secret in ["tk_4711", "topic-4711"] {
            let line = shown.lines().find(|line| line.contains(secret));
            assert_eq!(line, None);
        }
    }
}
