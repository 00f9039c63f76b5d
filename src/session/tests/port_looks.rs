//! Waits for ports, and when the kernel is asked for them.

use std::collections::BTreeMap;

use super::*;

const RUNS: &str = "life 1; @1#1 a running pid=7";

impl Driver {
    /// Requests a wait until `@1` listens on this port.
    fn wait_for_port(&mut self, port: Option<u16>) {
        self.ask(Request::Wait(WaitRequest {
            task: "@1".to_owned(),
            conditions: vec![Condition::Listen { port }],
            ..WaitRequest::default()
        }));
        self.look(RUNS);
        self.finish_chores();
        self.take();
        self.after(0);
    }

    /// The running look at ports has found that the run of pid 7 listens on these, and took so long.
    #[track_caller]
    fn ports(&mut self, ports: &[u16], ms: u64) {
        assert!(
            matches!(self.job, Some(Job::FindPorts(..))),
            "{:?}",
            self.job
        );
        let found = BTreeMap::from([(7, ports.iter().copied().collect())]);
        self.now = self.now.after(Duration::from_millis(ms));
        self.done(|job| {
            let Job::FindPorts(_, outcome) = job else {
                return false;
            };
            outcome.resolve(found);
            true
        });
    }

    /// Returns after how many milliseconds ports are looked at again.
    #[track_caller]
    fn pause(&mut self) -> u128 {
        let due = self.session.state().next_port_look().expect("one is due");
        let pause = due - self.now.mono;
        self.after(u64::try_from(pause.as_millis()).unwrap());
        pause.as_millis()
    }
}

#[test]
fn a_wait_for_a_port_asks_the_kernel_less_and_less_often_until_something_changes() {
    let mut driver = Driver::new(RUNS);
    driver.wait_for_port(Some(80));
    let mut pauses = Vec::new();
    for _ in 0..6 {
        driver.ports(&[443], 0);
        pauses.push(driver.pause());
    }
    assert_eq!(pauses, [20, 40, 80, 160, 320, 320]);
    // A look has processed what was reported.
    driver.ports(&[], 0);
    driver.input(Input::Changed(Change::Windows));
    driver.look(RUNS);
    driver.finish_chores();
    assert_eq!(driver.pause(), 20);
    // Where a look takes long, the pause is twenty times as long.
    driver.ports(&[], 30);
    assert_eq!(driver.pause(), 600);
    driver.take();
    driver.ports(&[80], 0);
    assert!(driver.take().contains(&"read end of %1".to_owned()));
    driver.read(&["listening"]);
    driver.did(&["answer 1 Listening"]);
    // Nobody waits any more.
    assert_eq!(driver.session.state().next_port_look(), None);
}

#[test]
fn the_ports_of_a_run_that_was_replaced_do_not_count() {
    let mut driver = Driver::new(RUNS);
    driver.wait_for_port(None);
    driver.input(Input::Changed(Change::Windows));
    driver.take();
    // The run ends while its ports are looked at.
    driver.ports(&[], 0);
    driver.look("life 1; @1#2 a running pid=8");
    driver.finish_chores();
    let done = driver.take();
    assert!(
        done.contains(&"answer 1 Respawned".to_owned())
            || done.contains(&"read end of %1".to_owned()),
        "{done:?}"
    );
    assert_eq!(driver.session.state().next_port_look(), None);
}

#[test]
fn a_system_that_does_not_show_ports_refuses_the_wait() {
    let mut driver = Driver::new(RUNS);
    driver.wait_for_port(None);
    driver.take();
    driver.fail("no table");
    driver.did(&["refuse 1: cannot wait for a port: no table"]);
    assert_eq!(driver.session.state().next_port_look(), None);
}
