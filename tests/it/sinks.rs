//! Sinks: programs and addresses that get the feed's records.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::World;

fn configure(world: &World, text: &str) {
    let folder = world.path("conf/tmux-task");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), text).unwrap();
}

/// What `daemon status` says of this sink.
fn sink(world: &World, name: &str) -> Value {
    let status = world.daemon_status();
    let sinks = status["sinks"].as_array().unwrap();
    sinks
        .iter()
        .find(|one| one["name"] == name)
        .unwrap()
        .clone()
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn a_program_gets_each_record_until_it_takes_it() {
    let world = World::new();
    let (out, taken) = (world.path("out"), world.path("taken"));
    // It takes nothing before the file is there.
    let script = world.script(
        "sink",
        &format!(
            "#!/bin/sh\nread -r record\n\
             echo \"$1 $TMUX_TASK_RECORD $TMUX_TASK_KIND $TMUX_TASK_LEVEL $TMUX_TASK_TASKS $SECRET\" >>'{}'\n\
             test -e '{}' || {{ echo 'not now' >&2; exit 9; }}\n",
            out.display(),
            taken.display()
        ),
    );
    let script = script.display();
    configure(
        &world,
        &format!(
            "notices = []\n\
             [[sink]]\nname = 'late'\nexec = ['{script}', 'a $(b)']\nkinds = ['followUp']\n\
             [[sink]]\nname = 'broken'\nexec = ['/no/such/program']\n\
             [[sink]]\nname = 'all'\nshell = 'cat >>{}'\ntasks = ['one', 'two']\nkinds = ['event']\ntypes = ['exited']\n",
            world.path("all").display()
        ),
    );
    let mut run = world.command(World::program());
    // Who starts the daemon keeps their secrets.
    run.args(["run", "one", "--", "exit 3"])
        .env("SECRET", "secret");
    crate::support::Output::of(run).ok();
    world.until_true("the sink has refused", || {
        sink(&world, "late")["failed"].as_u64() > Some(0)
    });
    // A broken sink holds no other up.
    world.until_true("the other sink has the end", || {
        lines(&world.path("all")).len() == 1
    });
    let late = sink(&world, "late");
    assert_eq!(late["error"], "exit status: 9: not now");
    assert!(late["lag"].as_u64() > Some(0), "{late}");
    let broken = sink(&world, "broken");
    assert!(
        broken["error"]
            .as_str()
            .unwrap()
            .starts_with("could not start `/no/such/program`")
    );
    let shown = world.task(["daemon", "status"]);
    assert!(
        shown.ok().contains("sink late (exec): 0 delivered, "),
        "{shown}"
    );
    assert!(
        shown.ok().contains(": exit status: 9: not now\n"),
        "{shown}"
    );
    // The next daemon goes on where this one was.
    world.task(["daemon", "stop"]).ok();
    fs::write(&taken, "").unwrap();
    world.task(["run", "two", "--", "exit 4"]).ok();
    world.until_true("the sink has both", || {
        sink(&world, "late")["delivered"] == 2
    });
    let got = lines(&out);
    let first = got.first().unwrap();
    assert!(
        first.starts_with("a $(b) ") && first.ends_with(" followUp warning one "),
        "{got:?}"
    );
    assert!(
        got.last().unwrap().ends_with(" followUp warning two "),
        "{got:?}"
    );
    world.until_true("the other sink has both", || {
        lines(&world.path("all")).len() == 2
    });
    for (line, code) in lines(&world.path("all")).iter().zip([3, 4]) {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["type"], "exited");
        assert_eq!(record["task"]["exitCode"], code, "{record}");
    }
}

#[test]
fn doctor_says_which_sink_is_stuck_and_why() {
    let world = World::new();
    configure(
        &world,
        &format!(
            "notices = []\n[[sink]]\nname = 'all'\nshell = 'cat >>{}'\n\
             [[sink]]\nname = 'stuck'\nshell = 'echo not now >&2; exit 1'\n",
            world.path("all").display()
        ),
    );
    world.run("api", "exec sleep 1000");
    world.until_true("one has failed", || {
        sink(&world, "stuck")["failed"].as_u64() > Some(0)
    });
    // A start has two records: between them the other sink has nothing behind too.
    world.until_true("the other has its records", || {
        world.task(["doctor"]).ok().lines().any(|line| {
            line.starts_with("ok    sinks        `all`: ")
                && line.ends_with(" delivered, nothing behind")
        })
    });
    let report = world.task(["doctor"]);
    let line = |start: &str| {
        let mut lines = report.ok().lines();
        let found = lines.find(|line| line.starts_with(start));
        found
            .unwrap_or_else(|| panic!("{start}: {report}"))
            .to_owned()
    };
    let stuck = line("warn  sinks        `stuck`: ");
    assert!(stuck.contains(" behind, the first for "), "{stuck}");
    assert!(
        stuck.contains("; the last attempt failed ")
            && stuck.ends_with(": exit status: 1: not now"),
        "{stuck}"
    );
    assert!(report.out.contains("exit code 0"), "{report}");
    // Their consumers are not counted among those of programs.
    line("ok    consumers    none");
}

#[test]
fn a_sink_that_is_taken_out_leaves_nothing_pending() {
    let world = World::new();
    let stuck = "notices = []\n[[sink]]\nname = 'stuck'\nshell = 'exit 1'\n";
    configure(&world, stuck);
    world.run("api", "exit 3");
    world.until_delivered("exited", "api");
    let consumers = || {
        let list = world.task(["consumer", "ls", "--json"]);
        let list: Value = serde_json::from_str(list.ok()).unwrap();
        let names = list["consumers"].as_array().unwrap().iter();
        names
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(consumers(), ["sink:stuck"]);
    world.task(["daemon", "stop"]).ok();
    configure(&world, "notices = []\n");
    world.daemon();
    assert_eq!(consumers(), [""; 0]);
}

#[cfg(feature = "webhook")]
mod webhook {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use ring::hmac;

    use super::*;
    use crate::support::{HttpServer, blocks};

    const KEY: &str = "a key that only this test has";

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
        let key = home.join(".config/tmux-task/ci.key");
        fs::write(&key, format!("{KEY}\n")).unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        let bin = world.path("bin");
        fs::create_dir(&bin).unwrap();
        for program in ["mail", "gemini", "acpx"] {
            let called = world.path(program);
            let script = format!(
                "#!/bin/sh\necho \"$*: $(tail -n +2)\" >>'{}'\n",
                called.display()
            );
            world.script(&format!("bin/{program}"), &script);
        }
        world.prepend_path(&bin);
        let sinks = examples(&["sinks.md", "agents.md"])
            .replace("/home/you", home.to_str().unwrap())
            .replace("https://ci.example.org", &server.address());
        configure(&world, &format!("notices = []\n{sinks}"));
        let names = ["log", "phone", "ci", "gemini-api", "acp-api"];
        assert_eq!(sinks.matches("[[sink]]").count(), names.len(), "{sinks}");
        for (name, owner, line) in [
            ("fine", "", "true"),
            ("one", "gemini:api", "exit 3"),
            ("two", "acp:api", "exit 4"),
        ] {
            let mut run = world.command(World::program());
            run.args(["run", name, "--", line])
                .env("TMUX_TASK_OWNER", owner);
            crate::support::Output::of(run).ok();
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
        let mails = called("mail");
        assert!(
            mails.contains("-s one you@example.org: tmux task") && mails.contains("-s two"),
            "{mails}"
        );
        assert!(!mails.contains("fine"), "{mails}");
        let gemini = called("gemini");
        assert!(gemini.contains("--resume latest: tmux task"), "{gemini}");
        assert!(!gemini.contains("(two)"), "{gemini}");
        assert!(called("acpx").contains("(two) exited with code 4"));
    }

    #[test]
    fn an_address_gets_signed_records_until_it_takes_them() {
        let world = World::new();
        // What is no success is no receipt, and a redirect is not followed.
        let server = HttpServer::start([302, 204]);
        let key = world.path("key");
        fs::write(&key, format!("{KEY}\n")).unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        configure(
            &world,
            &format!(
                "notices = []\n[[sink]]\nname = 'w'\nwebhook = '{}/hook?a=1'\n\
                 secret-file = '{}'\nkinds = ['followUp']\nlevel = 'warning'\n",
                server.address(),
                key.display()
            ),
        );
        world.task(["run", "fine", "--wait", "--", "true"]).ok();
        world.task(["run", "one", "--", "exit 3"]).ok();
        let refused = server.next();
        world.until_true("the sink knows", || {
            sink(&world, "w")["error"] == "the answer was 302"
        });
        let request = server.next();
        world.until_true("the sink has delivered", || {
            sink(&world, "w")["delivered"] == 1
        });
        assert_eq!(sink(&world, "w")["error"], Value::Null);
        assert_eq!(request.line, "POST /hook?a=1 HTTP/1.1\r\n");
        assert_eq!(request.body, refused.body);
        let record: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!(record["kind"], "followUp");
        assert!(
            record["message"]["content"]
                .as_str()
                .unwrap()
                .contains("(one) exited with code 3")
        );
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
        let log = || fs::read_to_string(world.state("work").join("daemon.log")).unwrap();
        world.until_true("the log says so", || log().contains("the answer was 302"));
        let log = log();
        let shown = format!("{log}{}", world.task(["daemon", "status"]).ok());
        assert!(shown.contains("the answer was 302"), "{shown}");
        for secret in [KEY, "/hook"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    #[test]
    fn a_message_is_sent_as_its_settings_say_and_its_secrets_are_not_shown() {
        let mut world = World::new();
        world.set("TMUX_TASK_LOG", "trace");
        let server = HttpServer::start([500]);
        configure(
            &world,
            &format!(
                "notices = []\n[[sink]]\nname = 'chat'\nwebhook = '{}/topic-4711'\n\
                 title = 'failed: {{tasks}}'\nlevel = 'warning'\n\
                 headers = {{ Authorization = 'Bearer tk_4711', Tags = '{{tasks}},{{level}}' }}\n\
                 body = '{{\"t\":\"{{title}}\",\"m\":\"{{text}}\"}}'\n",
                server.address()
            ),
        );
        let hostile =
            "printf '\"}\\\\\\r\\nX-Evil: 1\\033]0;t\\007 {text} gr\\303\\274n\\n'; exit 3";
        world.task(["run", "tests", "--", hostile]).ok();
        let (refused, request) = (server.next(), server.next());
        assert_eq!(refused.body, request.body);
        let header = |name: &str| request.headers[name].as_str();
        assert_eq!(header("authorization"), "Bearer tk_4711");
        assert_eq!(header("tags"), "tests,warning");
        assert_eq!(header("content-type"), "application/json");
        assert!(!request.headers.contains_key("x-evil"));
        let body: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!(body["t"], "failed: tests");
        let text = body["m"].as_str().unwrap();
        assert!(
            text.starts_with("tmux task @1 (tests) exited with code 3\n"),
            "{text}"
        );
        assert!(text.contains("X-Evil: 1 {text} grün"), "{text}");
        world.until_true("the sink has delivered", || {
            sink(&world, "chat")["delivered"] == 1
        });
        let log = fs::read_to_string(world.state("work").join("daemon.log")).unwrap();
        let show = ["show", "example"].map(|what| world.task(["config", what]).ok().to_owned());
        let status = world.task(["daemon", "status", "--json"]).ok().to_owned();
        let doctor = world.task(["doctor"]).to_string();
        let shown = [log, show.concat(), status, doctor].concat();
        assert!(shown.contains("the answer was 500"), "{shown}");
        for secret in ["tk_4711", "topic-4711"] {
            let line = shown.lines().find(|line| line.contains(secret));
            assert_eq!(line, None);
        }
    }
}
