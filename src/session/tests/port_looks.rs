//! Waits for ports, and when the kernel is asked for them.

use super::*;

impl Driver {
    /// A session with a wait until `@1` listens on a port.
    fn waiting_for(port: &str) -> Self {
        let mut driver = Self::new(RUNS);
        driver.play(&format!(
            "wait @1 for {port}\nlook RUNS\nchores\nignore\nafter 0"
        ));
        driver
    }

    /// Returns after how many milliseconds ports are looked at again.
    #[track_caller]
    fn pause(&mut self) -> u128 {
        let due = self.session.state().next_port_look().expect("one is due");
        let pause = (due - self.now.mono).as_millis();
        self.step(&format!("after {pause}"));
        pause
    }
}

#[test]
fn a_wait_for_a_port_asks_the_kernel_less_and_less_often_until_something_changes() {
    let mut driver = Driver::waiting_for("port 80");
    let mut pauses = Vec::new();
    for _ in 0..6 {
        driver.step("job ports 443");
        pauses.push(driver.pause());
    }
    assert_eq!(pauses, [20, 40, 80, 160, 320, 320]);
    // A look has processed what was reported.
    driver.play("job ports\nshows RUNS\nchores");
    assert_eq!(driver.pause(), 20);
    // Where a look takes long, the pause is twenty times as long.
    driver.now = driver.now.after(Duration::from_millis(30));
    driver.step("job ports");
    assert_eq!(driver.pause(), 600);
    driver.play(
        "
        ignore
        job ports 80 => .. read end of %1
        read listening => answer 1 Listening
        ",
    );
    // Nobody waits any more.
    assert_eq!(driver.session.state().next_port_look(), None);
}

#[test]
fn the_ports_of_a_run_that_was_replaced_do_not_count() {
    let mut driver = Driver::waiting_for("any port");
    driver.play(
        "
        windows
        ignore
        # The run ends while its ports are looked at.
        job ports
        look life 1; @1#2 a running pid=8
        chores => .. answer 1 Respawned
        ",
    );
    assert_eq!(driver.session.state().next_port_look(), None);
}

#[test]
fn a_system_that_does_not_show_ports_refuses_the_wait() {
    let mut driver = Driver::waiting_for("any port");
    driver.play("ignore\nfails no table => refuse 1: cannot wait for a port: no table");
    assert_eq!(driver.session.state().next_port_look(), None);
}
