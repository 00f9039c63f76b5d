//! Commands to hosts of a fleet, by the broker: `--host`.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::fleet::{ANOTHER as LAPTOP, GPU1, credentials, users_with};
use crate::recipes::world_with;
use crate::support::{
    Broker, FleetHosts, Output, World, blocks, confirm, content_of, event, has, lacks, message,
};

/// A laptop, a host that allows this, and their broker.
pub(crate) fn fleet_of(allow: &str) -> (World, World, Broker) {
    let (near, far) = (World::new(), World::new());
    let broker = Broker::start(&near);
    near.join_fleet(&broker.url(), "laptop", "");
    let allow = format!("allow = [{allow}]\n");
    far.join_fleet(&broker.url(), "gpu1", &allow);
    (near, far, broker)
}

/// The same with a task that runs there.
pub(crate) fn fleet(allow: &str) -> (World, World, Broker) {
    let fleet = fleet_of(allow);
    let line = "read -rp 'Go? ' x; echo got-$x; sleep 1000";
    fleet.1.run("one", line);
    fleet
}

fn on_gpu1(near: &World, args: &[&str]) -> Output {
    near.task([&["--host", "gpu1"], args].concat())
}

/// Waits until the host answers commands.
#[track_caller]
pub(crate) fn until_answered(near: &World) {
    near.until_true("it answers", || on_gpu1(near, &["ls"]).code == 0);
}

/// Checks that a message is about this end.
#[track_caller]
fn check_end(told: &Value, name: &str, code: i32) {
    let end = format!("({name}) exited with code {code}");
    assert!(content_of(told).ends_with(&end), "{told}");
}

#[test]
fn a_host_of_the_fleet_does_what_its_configuration_allows() {
    let (near, far, broker) = fleet("'ls', 'logs', 'wait', 'run', 'send'");
    until_answered(&near);
    let on = |args: &[&str]| on_gpu1(&near, args);
    let listed = on(&["ls", "--json"]).json();
    assert_eq!(listed["tasks"][0]["windowName"], "one");
    on(&["wait", "one", "--input"]).ok();
    let answer = "`tmux-task --host gpu1 send one TEXT --if-prompt 'Go?'` answers";
    on(&["wait", "one"]).fails_so(6, "").says(answer);
    on(&["send", "one", "yes", "--if-prompt", "Go?"]).ok();
    far.until_shows("one", "got-yes");
    has(on(&["logs", "one"]).ok(), "got-yes");
    // More than one message, and all of it.
    let long = "seq -f %.0f-0123456789012345678901234567890123456789 20000";
    on(&["run", "long", "--wait", "--", "sh", "-c", long]).ok();
    let output = on(&["logs", "long"]);
    let mut lines = output.ok().lines();
    let last = lines.rfind(|line| !line.is_empty()).unwrap();
    assert!(last.starts_with("20000-"), "{last}");
    // The exit code is the task's.
    on(&["run", "far", "--wait", "--", "sh", "-c", "exit 3"]).fails_with(3);
    // What must not be seen does not go through the broker.
    far.run("two", "read -rsp 'Password: ' x; sleep 1000");
    on(&["wait", "two", "--input"]).ok();
    on(&["send", "two", "pw", "--if-prompt", "Password:"]).fails_with(1);
    let hint = "hint: `[fleet] allow` in the configuration there permits commands, `[hosts]` in yours \
                names hosts for ssh";
    let why = "tmux-task: kill: gpu1: `kill` is not allowed through the broker";
    on(&["kill", "one"]).fails(1, &format!("{why}\n{hint}"));
    drop(broker);
    on(&["ls"]).fails_so(1, "tmux-task: ls: could not reach the broker at ");
}

#[test]
fn a_conversation_hears_what_it_has_started_by_the_broker() {
    let (mut near, far, _broker) = fleet("'ls', 'run', 'kill'");
    until_answered(&near);
    let mut adapter = near.adapter("one");
    near.set("TMUX_TASK_OWNER", "opencode:one");
    on_gpu1(&near, &["run", "train", "--", "sh", "-c", "exit 3"]).ok();
    let told = message(&adapter);
    assert_eq!(told["message"]["details"]["host"], "gpu1");
    check_end(&told, "train", 3);
    confirm(&mut adapter, &told);
    // What it ends says who asked.
    on_gpu1(&near, &["kill", "one"]).ok();
    let records = far.until_delivered("disappeared", "one");
    let gone = event(&records, "disappeared", "one");
    assert_eq!(gone["reason"], "agentKilled");
    assert_eq!(gone["askedBy"], "opencode:one@laptop");
    // It knows of the end of its own task.
    on_gpu1(&near, &["run", "own", "--", "sleep", "1000"]).ok();
    on_gpu1(&near, &["kill", "own"]).ok();
    on_gpu1(&near, &["run", "last", "--", "sh", "-c", "exit 4"]).ok();
    check_end(&message(&adapter), "last", 4);
}

/// The six commands of `docs/fleet.md`, each on its machine, with a broker that runs already.
#[test]
fn the_documentation_leads_from_nothing_to_a_message() {
    let (mut near, far) = (
        world_with(&[("pi", "exit 0")]),
        world_with(&[("python", "exit 3")]),
    );
    let broker = Broker::start(&near);
    let script = blocks("fleet.md", "sh").swap_remove(0);
    let script = script
        .replace("nats://broker.example.com:4222", &broker.url())
        .replace("~/.config", "$XDG_CONFIG_HOME");
    let parts: Vec<_> = script
        .split("# ")
        .filter_map(|part| part.split_once(":\n"))
        .collect();
    let n_commands = parts.iter().map(|(_, commands)| commands.lines().count());
    assert_eq!(n_commands.sum::<usize>(), 6);
    let mut adapter = None;
    for (place, commands) in parts {
        match place.split(',').next().unwrap() {
            "On the broker" => assert_eq!(commands, "nats-server -c nats-server.conf\n"),
            "On gpu1" => drop(far.shell(commands).ok()),
            "On the laptop" if !place.ends_with("agent") => {
                near.shell(commands).ok();
                // What the client starts.
                let started = near.start_piped(["agent", "pi", "--id", "one"]);
                started.records_until(|line| line["kind"] == "following");
                adapter = Some(started);
            }
            "On the laptop" => {
                near.set("TMUX_TASK_OWNER", "pi:one");
                // It has no session yet.
                near.until_true("gpu1 answers", || on_gpu1(&near, &["ls"]).code == 3);
                near.shell(commands).ok();
            }
            other => panic!("{other}"),
        }
    }
    check_end(&message(&adapter.unwrap()), "train", 3);
}

#[test]
fn a_host_that_is_not_there_answers_at_once_and_a_name_of_none_says_so() {
    let (near, far, broker) = fleet("'ls'");
    until_answered(&near);
    let unknown = "tmux-task: ls: gpu9 is no machine of the fleet; could not reach gpu9: ";
    near.task(["--host", "gpu9", "ls"]).fails_so(1, unknown);
    far.kill_daemon();
    near.until_true("it is not there", || on_gpu1(&near, &["ls"]).code == 1);
    let hint = "hint: `[hosts]` in the configuration names hosts for ssh";
    let expected = format!("tmux-task: ls: gpu1 is not there\n{hint}");
    on_gpu1(&near, &["ls"]).fails(1, &expected);
    // One that is there and executes nothing.
    let hosts = FleetHosts::connect(&broker);
    let value = json!({"v": 1, "host": "box", "version": "0.1.0", "allow": []});
    hosts.publish("$KV.TT_HOSTS.box", &[], &value.to_string());
    let expected = format!("tmux-task: ls: box allows nothing through the broker\n{hint}");
    near.task(["--host", "box", "ls"]).fails(1, &expected);
}

#[test]
fn the_first_command_to_a_machine_of_a_fresh_broker_works() {
    let (near, far, _broker) = fleet_of("'run'");
    far.task(["daemon", "--detach"]).ok();
    on_gpu1(&near, &["run", "one", "--", "sleep 1000"]).ok();
}

#[test]
fn a_second_machine_of_a_name_is_refused_and_named() {
    let (near, far, broker) = fleet("'ls'");
    until_answered(&near);
    let second = World::new();
    second.join_fleet(&broker.url(), "gpu1", "allow = ['ls']\n");
    second.run("other", "sleep 1000");
    second.until_true("it says why", || {
        let status = second.task(["daemon", "status"]);
        let status = status.ok();
        status.contains("another machine, which its system calls ")
            && status.contains(", is gpu1 in this fleet")
    });
    near.until_true("the first one's task is listed", || {
        let listed = near.task(["fleet", "ls"]);
        let listed = listed.ok();
        lacks(listed, "other");
        listed.contains("one")
    });
    // A second daemon of the first one is no other machine.
    far.run_in("more", "two", "sleep 1000");
    near.until_true("both sessions are listed", || {
        let listed = near.task(["fleet", "ls"]);
        listed.ok().contains("gpu1: more (1 task)")
    });
}

/// Any daemon of the host may get a request.
#[test]
fn the_tmux_server_is_the_one_with_the_session() {
    let (near, far, _broker) = fleet("'ls', 'run'");
    let run = ["-s", "elsewhere", "run", "two", "--", "sleep 1000"];
    far.task([&["-L", "other"], &run[..]].concat()).ok();
    until_answered(&near);
    // Its daemon answers as well.
    let daemons = || {
        let hosts = near.json(["fleet", "ls", "--json"]);
        hosts["hosts"][0]["sessions"].as_array().map_or(0, Vec::len)
    };
    near.until_true("both publish", || daemons() == 2);
    for _ in 0..10 {
        on_gpu1(&near, &["ls"]).ok();
        on_gpu1(&near, &["-s", "elsewhere", "ls"]).ok();
        on_gpu1(&near, &["-s", "new", "run", "c", "--", "echo", "-L"]).ok();
        let none = on_gpu1(&near, &["-s", "none", "ls"]);
        none.fails(
            3,
            "tmux-task: ls: no session `none`\nhint: `tmux-task --host gpu1 -s none run NAME -- COMMAND` \
             starts a task and with it the session",
        );
    }
    assert_eq!(far.task(["-L", "other", "-s", "new", "ls"]).code, 3);
    far.task(run).ok();
    let either = on_gpu1(&near, &["-s", "elsewhere", "ls"]);
    either.says("is on 2 tmux servers\nhint: -L names one");
    on_gpu1(&near, &["-L", "other", "-s", "elsewhere", "ls"]).ok();
}

#[test]
fn a_broker_with_tls_is_used_if_its_certificate_is_known() {
    let (near, far) = (World::new(), World::new());
    let openssl = |args: &str| {
        let mut command = Command::new("openssl");
        command.current_dir(near.path(".")).args(args.split(' '));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(&format!("{new} -keyout ca.key -out ca.pem -subj /CN=ca"));
    openssl(&format!(
        "{new} -keyout server.key -out server.pem -subj /CN=broker -CA ca.pem -CAkey ca.key \
         -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
    ));
    let path = |name: &str| near.path(name).display().to_string();
    let (cert, key) = (path("server.pem"), path("server.key"));
    let config = format!("tls {{ cert_file: '{cert}', key_file: '{key}' }}\n");
    let broker = Broker::with_config(&near, &config);
    let url = broker.url().replace("nats://", "tls://");
    let tls = format!("[fleet.tls]\nca-file = '{}'\n", path("ca.pem"));
    near.join_fleet(&url, "laptop", &tls);
    far.join_fleet(&url, "gpu1", &format!("allow = ['ls']\n{tls}"));
    far.run("one", "sleep 1000");
    until_answered(&near);
    // Without the authority the certificate is nobody's.
    near.join_fleet(&url, "laptop", "");
    on_gpu1(&near, &["ls"]).fails_so(1, "").says("certificate");
    near.join_fleet(&url, "laptop", "tls.ca-file = '/none'\n");
    let missing = "could not use /none: No such file";
    on_gpu1(&near, &["ls"]).says(missing);
}

/// A laptop that may publish to these subjects, a host with the permissions of the documentation and a
/// task, and their broker.
fn with_permissions(subjects: &[&str]) -> (World, World, Broker) {
    let (near, far) = (World::new(), World::new());
    let users = users_with(&format!(
        "{{ user: admin, password: admin }}\n    {{ nkey: {}, permissions: {{ publish: {subjects:?}, \
         subscribe: [\"_INBOX.laptop.>\"] }} }}",
        LAPTOP.1
    ));
    let broker = Broker::with_config(&near, &format!("{users}\nno_auth_user: admin\n"));
    drop(FleetHosts::of(&broker));
    for (world, host, seed) in [(&near, "laptop", LAPTOP.0), (&far, "gpu1", GPU1.0)] {
        let more = credentials(world, seed) + "allow = ['ls', 'kill']\n";
        world.join_fleet(&broker.url(), host, &more);
    }
    far.run("one", "sleep 1000");
    (near, far, broker)
}

#[test]
fn the_permission_to_publish_a_verb_is_a_second_lock() {
    let subjects = ["tt.v1.cmd.gpu1.*.ls", "$JS.API.DIRECT.GET.KV_TT_HOSTS.>"];
    let (near, _far, _broker) = with_permissions(&subjects);
    until_answered(&near);
    let output = on_gpu1(&near, &["kill", "one"]);
    let refused = "kill: the broker refused: Permissions Violation for Publish to \
                   \"tt.v1.cmd.gpu1.work.kill\"";
    let hint = "hint: docs/fleet.md lists what the credentials of a machine need for each command";
    output.fails(1, &format!("tmux-task: {refused}\n{hint}"));
    let output = near.task(["fleet", "ls"]);
    let refused =
        "tmux-task: fleet ls: the broker refused: Permissions Violation for Publish to \"$JS.API";
    output.fails_so(1, refused);
    // It is no fault that a machine may not read what the broker stores, unless one here should hear.
    let of_broker = |output: &Output| {
        let lines = output.out.lines().filter(|line| line.contains(" broker "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = of_broker(&near.task(["doctor"]));
    assert!(lines.len() == 1 && lines[0].starts_with("ok "), "{lines:?}");
    let _adapter = near.adapter("one");
    near.until_true("doctor says that conversations hear nothing", || {
        let mut lines = of_broker(&near.task(["doctor"])).into_iter();
        lines.any(|line| line.starts_with("warn") && line.contains("TT_WAKE"))
    });
}

#[test]
fn the_documented_permissions_are_what_conversations_and_commands_need() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/fleet.md");
    let text = fs::read_to_string(path).unwrap();
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains("`$JS."));
    let quoted = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let subjects: Vec<&str> = quoted.filter(|word| word.starts_with("$JS.")).collect();
    let (near, mut far, _broker) = with_permissions(&subjects);
    let adapter = near.adapter("one");
    far.set("TMUX_TASK_OWNER", "opencode:one");
    far.run("train", "exit 4");
    check_end(&message(&adapter), "train", 4);
    near.until_true("the tasks are listed", || {
        near.task(["fleet", "ls"]).ok().contains("train")
    });
    near.task(["fleet", "status"]).ok();
    has(near.task(["fleet", "feed"]).ok(), "\"train\"");
    let mut reader = near.start_piped(["fleet", "feed", "--follow", "--consumer", "mine"]);
    let records = reader.records_until(|line| line["type"] == "exited");
    let place = &records.last().unwrap()["fleetSeq"];
    reader.write(&format!("{}\n", json!({ "ack": place })));
    reader.records_until(|line| line["acked"] == *place);
}

#[test]
fn the_panel_shows_the_tasks_of_all_hosts_and_acts_on_them() {
    let (near, far, broker) = fleet("'ls', 'logs', 'send', 'kill'");
    until_answered(&near);
    let hosts = FleetHosts::connect(&broker);
    hosts.session("box", "api", &[("@1", "serve", "running")]);
    hosts.beat("box", "1");
    near.run("shell", "sleep 1000");
    // The panel selects what is first when it opens: by then that is the question.
    near.until_true("the question is published", || {
        near.task(["fleet", "ls"]).ok().contains("Go?")
    });
    let panel = format!("{} panel --fleet", World::program().display());
    near.new_window("panel", &panel);
    near.until_shows("panel", "box is gone since 20");
    let keys = |keys: &[&str]| {
        let to = ["send-keys", "-t", "=work:panel"];
        near.tmux([&to, keys].concat());
    };
    near.until_shows("panel", "Go?");
    keys(&["a"]);
    near.until_shows("panel", "asks: Go?");
    keys(&["yes", "Enter"]);
    far.until_shows("one", "got-yes");
    near.until_shows("panel", "sent to work@gpu1/one");
    keys(&["l"]);
    near.until_shows("panel", "got-yes");
    keys(&["q", "x", "y"]);
    far.until("it is killed", |records| {
        let mut records = records.iter();
        records.any(|record| record["reason"] == "userKilled")
    });
}
