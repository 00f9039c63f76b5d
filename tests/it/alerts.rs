//! What is displayed to the user, with a real notifier.

use serde_json::Value;

use crate::notices::Desk;
use crate::support::{World, begins, events_of};

/// A world whose daemon displays on this desktop.
fn world_of(desk: &Desk) -> World {
    let mut world = World::new();
    world.set("DBUS_SESSION_BUS_ADDRESS", &desk.address);
    world.daemon();
    world
}

/// Stops the daemon, which displays what it has gathered. Returns what is displayed then, title and
/// body, sorted.
fn displayed(world: &World, desk: &Desk, n: usize) -> Vec<String> {
    world.finish();
    desk.wait_for_count("displayed", &n.to_string());
    desk.dunstctl(&["close-all"]);
    let history = desk.history();
    let field = |notice: &Value, name: &str| notice[name]["data"].as_str().unwrap().to_owned();
    let notices = history
        .iter()
        .map(|notice| format!("{}\n{}", field(notice, "summary"), field(notice, "body")));
    let mut displayed: Vec<String> = notices.collect();
    displayed.sort();
    displayed
}

#[test]
fn a_failure_a_question_and_a_bell_each_make_one_notification() {
    let desk = Desk::start();
    let world = world_of(&desk);
    for (name, line, event) in [
        (
            "build",
            "echo '<b>error</b> & <img src=x> \"日本\"'; exit 2",
            "exited",
        ),
        ("deploy", "read -r -p 'Proceed? [y/N] ' _", "input"),
        (
            "tests",
            "printf 'all passed\\a\\n'; exec sleep 1000",
            "notify",
        ),
        ("fine", "true", "exited"),
    ] {
        world.run(name, line);
        world.until_delivered(event, name);
    }
    assert_eq!(
        displayed(&world, &desk, 3),
        [
            // As markup, so that it is shown as the text it is.
            "build failed with code 2\n&lt;b&gt;error&lt;/b&gt; &amp; &lt;img src=x&gt; \"日本\"\n\
             See: tmux-task logs build -s work",
            "deploy asks: Proceed? [y/N]\nAnswer: tmux-task send deploy TEXT -s work",
            "tests rang the bell\nall passed\nSee: tmux-task logs tests -s work",
        ]
    );
    // Only the bell is of low urgency.
    for notice in desk.history() {
        assert_eq!(notice["appname"]["data"], "tmux-task");
        let (summary, message) = (&notice["summary"]["data"], &notice["message"]["data"]);
        let is_low = summary == "tests rang the bell";
        let urgency = if is_low { "LOW " } else { "NORMAL " };
        begins(message.as_str().unwrap(), urgency);
    }
}

#[test]
fn an_answered_question_is_taken_away_and_the_next_notification_of_a_task_replaces_its_last_one() {
    let desk = Desk::start();
    let world = world_of(&desk);
    world.run("ask", "read -r -p 'Name: ' _; exec sleep 1000");
    desk.wait_for_count("displayed", "1");
    world.task(["send", "ask", "me"]).ok();
    desk.wait_for_count("displayed", "0");
    let gate = world.gate("gate");
    world.run("api", &format!("printf '\\a'; {gate}; exit 3"));
    desk.wait_for_count("displayed", "1");
    gate.open();
    world.until_delivered("exited", "api");
    let mut displayed = displayed(&world, &desk, 1);
    displayed.retain(|notice| !notice.starts_with("ask asks"));
    let end = "api failed with code 3\nSee: tmux-task logs api -s work";
    assert_eq!(displayed, [end]);
}

#[test]
fn a_notifier_and_a_bus_that_are_restarted_show_the_next_notification() {
    let mut desk = Desk::start();
    let world = world_of(&desk);
    let (bell, end) = (world.gate("bell"), world.gate("end"));
    let line = format!("printf '\\a'; {bell}; printf '\\a'; {end}; exit 3");
    world.run("api", &line);
    desk.wait_for_count("displayed", "1");

    // The next notifier counts its own ids: another program has that of the first notification.
    desk.restart_notifier();
    desk.show_another_programs("first");
    desk.wait_for_count("displayed", "1");
    bell.open();
    desk.wait_for_count("displayed", "2");

    desk.restart_bus();
    end.open();
    world.until_delivered("exited", "api");
    let end = "api failed with code 3\nSee: tmux-task logs api -s work";
    assert_eq!(displayed(&world, &desk, 1), [end]);
}

#[test]
fn a_click_shows_the_window_and_what_is_in_view_is_not_displayed() {
    let desk = Desk::start();
    let world = world_of(&desk);
    world.tmux(["new-session", "-d", "-s", "home", "-n", "desk", "cat"]);
    world.attach_terminal("80x24", "home");
    world.until_true("the terminal shows home", || {
        world.on_terminals() == ["home desk"]
    });
    world.tmux(["set-option", "-t", "=home:", "@tmux_task_notices", "on"]);
    let terminal = world.tmux(["list-clients", "-t", "=home", "-F", "#{client_name}"]);

    let (gate, bell) = (world.gate("gate"), world.gate("bell"));
    world.run("other", &format!("{gate}; exit 4"));
    let line = format!("printf '\\a'; {bell}; printf '\\a'; exec sleep 1000");
    world.run("api", &line);
    desk.wait_for_count("displayed", "1");
    // `display-message -c` of tmux 3.2a takes no client.
    if world.tmux(["-V"]) != "tmux 3.2a" {
        world.until_true("the user's own session shows it too", || {
            let log = world.tmux(["show-messages", "-t", &terminal]);
            log.contains("message: api rang the bell (See: tmux-task logs api -s work)")
        });
    }
    // Again and again, as a user does: a click in the first moments of a notification is not heard.
    world.until_true("the terminal shows api", || {
        desk.dunstctl(&["action"]);
        world.on_terminals() == ["work api"]
    });

    desk.dunstctl(&["close-all"]);
    bell.open();
    world.until("the second bell", |records| {
        events_of(records, "notify").len() == 2
    });
    gate.open();
    world.until_delivered("exited", "other");
    // The bell's window is in view.
    let mut displayed = displayed(&world, &desk, 1);
    displayed.retain(|notice| !notice.starts_with("api rang the bell\n"));
    let end = "other failed with code 4\nSee: tmux-task logs other -s work";
    assert_eq!(displayed, [end]);
    world.end_terminal();
}

#[test]
fn the_configuration_says_what_is_displayed_and_of_which_task() {
    let desk = Desk::start();
    let mut world = World::new();
    world.set("DBUS_SESSION_BUS_ADDRESS", &desk.address);
    world.configure(
        "[notices]\nplaces = ['desktop']\nevents = ['exited']\n[notices.tasks]\n\
         web = ['failed']\nquiet = []\n",
    );
    for (name, line) in [
        ("fine", "true"),
        ("bad", "exit 1"),
        ("web", "exit 1"),
        ("quiet", "true"),
    ] {
        world.run(name, line);
        world.until_delivered("exited", name);
    }
    assert_eq!(
        displayed(&world, &desk, 2),
        [
            "fine finished\nSee: tmux-task logs fine -s work",
            "web failed with code 1\nSee: tmux-task logs web -s work",
        ]
    );
}

#[test]
fn the_status_option_starts_with_what_needs_the_user() {
    let world = World::new();
    world.daemon();
    world.run("build", "exit 2");
    world.run("deploy", "read -r -p 'Proceed? [y/N] ' _");
    world.run("api", "exec sleep 1000");
    world.run("fine", "true");
    let status = || world.shown("=work:", "#{@tmux_task_status}");
    // The counts are the same before the last one starts.
    world.until_delivered("exited", "fine");
    let counts = "1 needs you · 1 failed · 1 running";
    world.until_true("the counts are set", || status() == counts);
    // The documented line for the status line of other sessions.
    world.tmux(["new-session", "-d", "-s", "home", "cat"]);
    let everywhere = "#{S:#{?#{@tmux_task_status},#{session_name}: #{@tmux_task_status} ,}}";
    world.until_true("another session shows them", || {
        world.shown("=home:", everywhere) == format!("work: {counts}")
    });
    world.finish();
    assert_eq!(status(), "");
}
