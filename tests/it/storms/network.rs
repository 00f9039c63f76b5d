//! A network namespace behind a link that can be cut and slowed. Needs root.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::Place;

pub(super) struct Network {
    name: String,
    device: String,
    address: String,
}

impl Network {
    /// Returns a namespace; `None` if there can be none.
    pub(super) fn new(number: usize) -> Option<Self> {
        let pid = std::process::id();
        let network = Self {
            name: format!("tt-{pid}-{number}"),
            device: format!("tt{pid}x{number}"),
            address: format!("10.213.{number}.2"),
        };
        let Self {
            name,
            device,
            address,
        } = &network;
        let lines = [
            format!("netns add {name}"),
            format!("link add {device} type veth peer name far netns {name}"),
            format!("addr add 10.213.{number}.1/24 dev {device}"),
            format!("link set {device} up"),
            format!("-n {name} addr add {address}/24 dev far"),
            format!("-n {name} link set lo up"),
            format!("-n {name} link set far up"),
        ];
        lines.iter().all(|line| run("ip", line)).then_some(network)
    }

    pub(super) fn place(&self) -> Place {
        let enter = ["ip", "netns", "exec", &self.name];
        Place {
            address: self.address.clone(),
            enter: enter.map(str::to_owned).to_vec(),
        }
    }

    /// Loses everything for a time.
    pub(super) fn cut(&self, time: Duration) {
        assert!(run("ip", &format!("-n {} link set far down", self.name)));
        thread::sleep(time);
        assert!(run("ip", &format!("-n {} link set far up", self.name)));
    }

    /// Is as slow as an old modem for a time.
    pub(super) fn slow(&self, time: Duration) {
        let far = format!("-n {} qdisc", self.name);
        let rate = "root tbf rate 64kbit burst 2kb latency 2s";
        for (qdisc, device) in [("qdisc", &*self.device), (&far, "far")] {
            assert!(run("tc", &format!("{qdisc} add dev {device} {rate}")));
        }
        thread::sleep(time);
        for (qdisc, device) in [("qdisc", &*self.device), (&far, "far")] {
            assert!(run("tc", &format!("{qdisc} del dev {device} root")));
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        run("ip", &format!("link del {}", self.device));
        run("ip", &format!("netns del {}", self.name));
    }
}

/// Runs a program with these words. Returns whether it succeeded.
fn run(program: &str, words: &str) -> bool {
    let mut command = Command::new(program);
    command.args(words.split(' ')).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
