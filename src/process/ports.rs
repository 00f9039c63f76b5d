//! Who listens on which TCP port: sockets from the kernel, and their processes by their open files.
//!
//! All of it is read when somebody asks, and nothing is kept. The sockets are read first, because they
//! are cheap and usually answer already: nobody listens on the port.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::model::Ordered as _;

/// Where a run listens, and where others do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listening {
    own: BTreeSet<SocketAddr>,
    others: BTreeSet<SocketAddr>,
}

impl Listening {
    /// Returns the ports that the run listens on.
    pub(crate) fn ports(&self) -> BTreeSet<u16> {
        self.own.iter().map(SocketAddr::port).into_set()
    }

    /// Returns the ports that the run listens on at an address that no other process shares with it:
    /// with `SO_REUSEPORT` the kernel gives some of the connections to the other one.
    pub(crate) fn exclusive_ports(&self) -> BTreeSet<u16> {
        let own = self.own.difference(&self.others);
        own.map(SocketAddr::port).into_set()
    }

    /// Whether the run gets all connections to this address: the socket with exactly this address has
    /// precedence over one for all addresses.
    fn answers_at(&self, address: SocketAddr) -> bool {
        let any = |ip: IpAddr| SocketAddr::new(ip, address.port());
        let candidates = [
            Some(address),
            address.is_ipv4().then(|| any(Ipv4Addr::UNSPECIFIED.into())),
            Some(any(Ipv6Addr::UNSPECIFIED.into())),
        ];
        let mut candidates = candidates.into_iter().flatten();
        let first = candidates.find(|at| self.own.contains(at) || self.others.contains(at));
        first.is_some_and(|at| !self.others.contains(&at))
    }
}

/// Whether the run with this first process gets all connections to this address.
pub(crate) fn answers_at(leader: u32, address: SocketAddr) -> bool {
    let found = listening(&[leader], Some(address.port())).unwrap_or_default();
    let of_run = found.get(&leader);
    of_run.is_some_and(|listening| listening.answers_at(address))
}

#[cfg(linux)]
mod sockets;

#[cfg(linux)]
pub(crate) use system::{listening, port_holders};

#[cfg(linux)]
mod system {
    use rustix::fs::{CWD, Mode, OFlags, RawDir, openat, readlinkat_raw};

    use super::super::ending::members::{Known, ProcessRow};
    use super::super::ending::table;
    use super::super::stat::{NAME_CHARS, pane_of, variable};
    use super::sockets::{Socket, sockets};
    use super::{BTreeMap, BTreeSet, Listening};
    use crate::model::{Ordered as _, PortHolder, text};

    /// Returns where the runs with these first processes listen, on any port or on this one; `None`
    /// where the system does not show it.
    pub(crate) fn listening(
        leaders: &[u32],
        port: Option<u16>,
    ) -> Option<BTreeMap<u32, Listening>> {
        let sockets = sockets(port)?;
        let holders = Holders::read(&sockets, leaders, false);
        let of = |leader: &u32| (*leader, divide(&sockets, &holders.own_of(*leader)));
        Some(leaders.iter().map(of).into_map())
    }

    /// Returns who listens on a port, without the run with this first process.
    pub(crate) fn port_holders(port: u16, leader: Option<u32>) -> Vec<PortHolder> {
        let mut sockets = sockets(Some(port)).unwrap_or_default();
        let found = Holders::read(&sockets, leader.as_slice(), true);
        if let Some(leader) = leader {
            let own = found.own_of(leader);
            sockets.retain(|socket| !own.contains(&socket.inode));
        }
        let mut holders: Vec<PortHolder> = Vec::new();
        for socket in &sockets {
            // The one that began first has most likely opened it, and the others have it from there: for a
            // moment also what it starts, until that executes its program.
            let rows = found.table.iter();
            let rows = rows.filter(|row| found.holds(row.pid, socket.inode));
            let holder = match rows.min_by_key(|row| row.started) {
                Some(row) => holder(row, socket, &found.table),
                None => PortHolder {
                    port,
                    uid: socket.uid,
                    ..PortHolder::default()
                },
            };
            if !holders.contains(&holder) {
                holders.push(holder);
            }
        }
        holders
    }

    /// The processes of the system, and which of these sockets they hold. Each process's files are read
    /// once, however many runs are asked for.
    struct Holders {
        table: Vec<ProcessRow>,
        /// Those that hold any of the sockets, by pid.
        holders: BTreeMap<u32, Holder>,
    }

    struct Holder {
        /// The inodes of the sockets that it holds.
        held: BTreeSet<u64>,
        /// The pids and sessions [`upwards`] of it, with the first processes of its runs among them.
        above: BTreeSet<u32>,
        /// When it started, and the pane that it was started in, as far as it says, unless it is in a run's
        /// sessions. A server that was put into the background has left them, and its parents have ended.
        left: Option<(u64, (String, String))>,
    }

    impl Holders {
        /// Reads the files of all processes, or of what may belong to one of the runs with these first
        /// processes, for which alone may be asked then: files are ten times as dear as the environment, and
        /// that as a time.
        fn read(sockets: &[Socket], leaders: &[u32], all: bool) -> Self {
            let inodes = sockets.iter().map(|socket| socket.inode).into_set();
            let table = match inodes.is_empty() {
                true => Vec::new(),
                false => table::read(&mut Vec::new()),
            };
            let members = members(&table, leaders);
            let began = table.iter().filter(|row| leaders.contains(&row.pid));
            let began = began.map(|row| row.started).min();
            let mut holders = BTreeMap::new();
            for row in &table {
                let pid = row.pid;
                let is_member = members.contains(&pid);
                let is_later = began.is_some_and(|began| row.started >= began);
                if !(all || is_member || is_later && pane_of(pid).is_some()) {
                    continue;
                }
                let held = &sockets_of(pid) & &inodes;
                if !held.is_empty() {
                    let left = (!is_member).then(|| Some((row.started, pane_of(pid)?)));
                    let holder = Holder {
                        held,
                        above: upwards(&table, pid),
                        left: left.flatten(),
                    };
                    holders.insert(pid, holder);
                }
            }
            Self { table, holders }
        }

        fn holds(&self, pid: u32, inode: u64) -> bool {
            let holder = self.holders.get(&pid);
            holder.is_some_and(|holder| holder.held.contains(&inode))
        }

        /// Returns the inodes of the sockets that a run holds.
        fn own_of(&self, leader: u32) -> BTreeSet<u64> {
            let holders = self.holders.values();
            let has_left = holders.clone().any(|holder| holder.left.is_some());
            let began = self.table.iter().find(|row| row.pid == leader && has_left);
            let began = began.and_then(|row| Some((row.started, pane_of(leader)?)));
            let is_own = |holder: &&Holder| {
                let of_pane = holder.left.as_ref().zip(began.as_ref());
                holder.above.contains(&leader)
                    || of_pane.is_some_and(|(left, began)| left.0 >= began.0 && left.1 == began.1)
            };
            let own = holders.filter(is_own);
            own.flat_map(|holder| &holder.held).copied().into_set()
        }
    }

    /// Returns the pids of the processes in the runs with these first processes.
    fn members(table: &[ProcessRow], leaders: &[u32]) -> BTreeSet<u32> {
        let mut known = Known::default();
        known.sessions.extend(leaders);
        let members = known.find(table, std::process::id());
        members.iter().map(|row| row.pid).into_set()
    }

    /// Returns this pid, those of its parents and of what shares a session with one of them, and so on, and
    /// the numbers of the sessions: it is in the runs of which the first process is among these.
    fn upwards(table: &[ProcessRow], pid: u32) -> BTreeSet<u32> {
        let mut numbers = BTreeSet::from([pid]);
        loop {
            let n_numbers = numbers.len();
            for row in table {
                if numbers.contains(&row.pid) || numbers.contains(&row.session) {
                    numbers.extend([row.pid, row.parent, row.session]);
                }
            }
            // What is below the first process, or a child of the kernel, is not for that of one run.
            numbers.retain(|number| *number > 1);
            if numbers.len() == n_numbers {
                return numbers;
            }
        }
    }

    fn holder(row: &ProcessRow, socket: &Socket, table: &[ProcessRow]) -> PortHolder {
        // A program may have overwritten its environment.
        let parent = |row: &&ProcessRow| {
            let parent = row.parent;
            table.iter().find(|row| row.pid == parent)
        };
        let mut line = std::iter::successors(Some(row), parent).take(table.len());
        let variable =
            |pid, name| Some(text::one_line(variable(pid, name)?.as_bytes(), NAME_CHARS));
        let task = line.find_map(|row| Some((row.pid, variable(row.pid, "TMUX_TASK_NAME")?)));
        let session = task
            .as_ref()
            .map(|(pid, _)| variable(*pid, "TMUX_TASK_SESSION"));
        PortHolder {
            port: socket.address.port(),
            pid: Some(row.pid),
            program: Some(row.name.clone()),
            uid: socket.uid,
            session: session.flatten(),
            task: task.map(|(_, name)| name),
        }
    }

    /// Returns where a run listens that holds these sockets.
    fn divide(sockets: &[Socket], own: &BTreeSet<u64>) -> Listening {
        let addresses = |is_own: bool| {
            let sockets = sockets.iter();
            let side = sockets.filter(|socket| own.contains(&socket.inode) == is_own);
            side.map(|socket| socket.address).into_set()
        };
        Listening {
            own: addresses(true),
            others: addresses(false),
        }
    }

    /// Returns the inodes of the sockets that a process has open; none where that is hidden.
    fn sockets_of(pid: u32) -> BTreeSet<u64> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(folder) = openat(CWD, format!("/proc/{pid}/fd"), flags, Mode::empty()) else {
            return BTreeSet::new();
        };
        let mut sockets = BTreeSet::new();
        // `socket:[4242]` has room, and of anything longer the beginning is enough.
        let (mut entries, mut target) = (Vec::with_capacity(4096), [0; 32]);
        let mut entries = RawDir::new(&folder, entries.spare_capacity_mut());
        while let Some(Ok(entry)) = entries.next() {
            // `.` and `..` are no links.
            let Ok(n_read) = readlinkat_raw(&folder, entry.file_name(), &mut target) else {
                continue;
            };
            let number = target[..n_read].strip_prefix(b"socket:[");
            let number = number.and_then(|number| str::from_utf8(number).ok()?.strip_suffix(']'));
            sockets.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        sockets
    }
}

#[cfg(not(linux))]
pub(crate) fn listening(_: &[u32], _: Option<u16>) -> Option<BTreeMap<u32, Listening>> {
    None
}

#[cfg(not(linux))]
pub(crate) fn port_holders(_: u16, _: Option<u32>) -> Vec<crate::model::PortHolder> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_port_that_is_shared_at_its_address_is_not_the_runs_alone() {
        let set = |all: &[&str]| all.iter().map(|text| at(text)).collect();
        let listening = Listening {
            own: set(&["127.0.0.1:3000", "0.0.0.0:4000", "[::]:5000", "[::1]:6000"]),
            others: set(&[
                "0.0.0.0:3000",
                "0.0.0.0:4000",
                "127.0.0.1:5000",
                "127.0.0.1:6000",
            ]),
        };
        assert_eq!(listening.ports(), BTreeSet::from([3000, 4000, 5000, 6000]));
        let exclusive = BTreeSet::from([3000, 5000, 6000]);
        assert_eq!(listening.exclusive_ports(), exclusive);
        for (address, expected) in [
            ("127.0.0.1:3000", true),
            ("127.0.0.2:3000", false),
            ("127.0.0.1:4000", false),
            ("127.0.0.1:5000", false),
            ("127.0.0.2:5000", true),
            ("[::1]:5000", true),
            ("[::1]:6000", true),
            ("127.0.0.1:6000", false),
            ("127.0.0.1:7000", false),
        ] {
            assert_eq!(listening.answers_at(at(address)), expected, "{address}");
        }
    }

    #[test]
    #[cfg(linux)]
    fn our_own_port_is_found_by_our_pid() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // The sockets of a connection have the same port.
        let _connected = std::net::TcpStream::connect(address).unwrap();
        let holders = port_holders(address.port(), None);
        let pids: Vec<_> = holders.iter().map(|holder| holder.pid).collect();
        // Children that other tests have just forked may share it, until they execute their programs.
        assert!(pids.contains(&Some(std::process::id())), "{holders:?}");
    }
}
