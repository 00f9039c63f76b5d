//! The TCP sockets that listen, as the kernel lists them.
//!
//! `sock_diag(7)` returns these alone, in a tenth of a millisecond. A system without it, such as gVisor,
//! has the tables of `/proc/net`, with all connections: the kernel goes through all that it has room
//! for, which takes some milliseconds.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use crate::files::PROC;

/// A socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) address: SocketAddr,
    pub(super) inode: u64,
    /// The user that has opened it.
    pub(super) uid: u32,
}

/// Returns the sockets that listen, on any port or on this one; `None` where the system does not show
/// them.
pub(super) fn sockets(port: Option<u16>) -> Option<Vec<Socket>> {
    let mut sockets = dump(AddressFamily::INET).or_else(|_| table("tcp")).ok()?;
    // A kernel may be without IPv6.
    let v6 = dump(AddressFamily::INET6).or_else(|_| table("tcp6"));
    sockets.extend(v6.unwrap_or_default());
    sockets.retain(|socket| port.is_none_or(|port| port == socket.address.port()));
    Some(sockets)
}

// By `sock_diag(7)`.

/// `SOCK_DIAG_BY_FAMILY`, the kind of the request.
const BY_FAMILY: u16 = 20;

/// `NLM_F_REQUEST | NLM_F_DUMP`: all that match.
const REQUEST_ALL: u16 = 0x301;

/// `NLMSG_ERROR` and `NLMSG_DONE`, the kinds of message that are no socket.
const ERROR: u16 = 2;
const DONE: u16 = 3;

const TCP: u8 = 6;

/// The set of states of which a socket listens.
const LISTENING: u32 = 1 << 10;

/// The lengths of `struct nlmsghdr` and `struct inet_diag_req_v2`.
const HEADER: usize = 16;
const REQUEST: usize = 56;

/// The kernel sends no more at once.
const MAX_PART: usize = 32 * 1024;

/// Asks the kernel for the sockets of a family.
fn dump(family: AddressFamily) -> io::Result<Vec<Socket>> {
    let kind = (SocketType::RAW, SocketFlags::CLOEXEC);
    let protocol = Some(netlink::SOCK_DIAG);
    let kernel = rustix::net::socket_with(AddressFamily::NETLINK, kind.0, kind.1, protocol)?;
    let family = u8::try_from(family.as_raw()).map_err(io::Error::other)?;
    rustix::net::send(&kernel, &request(family), SendFlags::empty())?;
    let mut sockets = Vec::new();
    let mut part = vec![0; MAX_PART];
    loop {
        let (n_read, _) = rustix::net::recv(&kernel, &mut part[..], RecvFlags::empty())?;
        if read_part(&part[..n_read], &mut sockets).ok_or(io::ErrorKind::Unsupported)? {
            return Ok(sockets);
        }
    }
}

fn request(family: u8) -> Vec<u8> {
    let length = u32::try_from(HEADER + REQUEST).unwrap_or_default();
    let mut bytes = Vec::with_capacity(HEADER + REQUEST);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_ALL.to_ne_bytes());
    // Its number, and the sender's: the answers have a socket of their own.
    bytes.extend([0; 8]);
    bytes.extend([family, TCP, 0, 0]);
    bytes.extend(LISTENING.to_ne_bytes());
    // Of any address.
    bytes.resize(HEADER + REQUEST, 0);
    bytes
}

/// Reads a part of the answer. Returns whether it was the last one; `None` where it is an error or not
/// understood.
fn read_part(mut part: &[u8], sockets: &mut Vec<Socket>) -> Option<bool> {
    while !part.is_empty() {
        let length = usize::try_from(u32::from_ne_bytes(field(part, 0)?)).ok()?;
        let message = part.get(HEADER..length)?;
        match u16::from_ne_bytes(field(part, 4)?) {
            DONE => return Some(true),
            ERROR => return None,
            _ => sockets.push(socket(message)?),
        }
        part = part.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(false)
}

/// Reads a `struct inet_diag_msg`.
fn socket(message: &[u8]) -> Option<Socket> {
    let ip: IpAddr = match AddressFamily::from_raw(u16::from(*message.first()?)) {
        AddressFamily::INET => Ipv4Addr::from(field::<4>(message, 8)?).into(),
        AddressFamily::INET6 => Ipv6Addr::from(field::<16>(message, 8)?).into(),
        _ => return None,
    };
    Some(Socket {
        address: SocketAddr::new(ip, u16::from_be_bytes(field(message, 4)?)),
        uid: u32::from_ne_bytes(field(message, 64)?),
        inode: u32::from_ne_bytes(field(message, 68)?).into(),
    })
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

// By `/proc/net`.

/// The state of a socket that listens, in a table.
const LISTENS: &str = "0A";

fn table(name: &str) -> io::Result<Vec<Socket>> {
    std::fs::read_to_string(format!("{PROC}/net/{name}")).map(|table| parse_table(&table))
}

/// Returns the listening sockets in a table. Rows that are not understood are skipped.
fn parse_table(table: &str) -> Vec<Socket> {
    let socket = |row: &str| {
        let fields: Vec<&str> = row.split_ascii_whitespace().collect();
        let [_, local, _, LISTENS, _, _, _, uid, _, inode, ..] = fields[..] else {
            return None;
        };
        let (ip, port) = local.split_once(':')?;
        Some(Socket {
            address: SocketAddr::new(parse_ip(ip)?, u16::from_str_radix(port, 16).ok()?),
            inode: inode.parse().ok()?,
            uid: uid.parse().ok()?,
        })
    };
    table.lines().filter_map(socket).collect()
}

/// Parses an address: words of four bytes, each as a number of this machine.
fn parse_ip(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(hex.get(at..at + 8)?, 16);
        word.ok().map(u32::to_ne_bytes)
    };
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0000000000000000 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17 1 0000000000000000 100 0 0 10 0
   2: 0100007F:0BB8 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 4243 1 0000000000000000 20 4 30 10 -1
   3: 0100007F:C001 0100007F:0BB8 06 00000000:00000000 03:00000f00 00000000     0        0 0 3 0000000000000000
";

    const V6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 99 1 0000000000000000 100 0 0 10 0
   1: 00000000000000000000000000000000:2407 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 98 1 0000000000000000 100 0 0 10 0
";

    #[test]
    #[cfg(target_endian = "little")]
    fn sockets_that_listen_are_in_the_tables_of_the_kernel() {
        for (table, expected) in [
            (V4, ["127.0.0.1:3000 4242 1000", "0.0.0.0:22 17 0"]),
            (V6, ["[::1]:3000 99 1000", "[::]:9223 98 0"]),
        ] {
            let shown = parse_table(table).into_iter();
            let shown = shown.map(
                |Socket {
                     address,
                     inode,
                     uid,
                 }| format!("{address} {inode} {uid}"),
            );
            assert_eq!(shown.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn rows_that_are_not_understood_are_skipped() {
        for end in 0..V4.len() {
            assert!(parse_table(&V4[..end]).len() <= 2);
        }
        for row in [
            "0: 0100007F:0BB8 00000000:0000 0A a b c 1000 0 x",
            "0: 0100007F:10000 00000000:0000 0A a b c 1000 0 7",
            "0: 0100007F 00000000:0000 0A a b c 1000 0 7",
            "0: 0100é07F:0BB8 00000000:0000 0A a b c 1000 0 7",
            "0: 0100007F01:0BB8 00000000:0000 0A a b c 1000 0 7",
        ] {
            assert_eq!(parse_table(row), [], "{row}");
        }
    }

    #[test]
    fn both_ways_show_what_listens_and_no_connection() {
        for (ip, family, name) in [
            ("127.0.0.1:0", AddressFamily::INET, "tcp"),
            ("[::1]:0", AddressFamily::INET6, "tcp6"),
        ] {
            let Ok(listener) = std::net::TcpListener::bind(ip) else {
                // A machine may be without IPv6.
                continue;
            };
            let address = listener.local_addr().unwrap();
            let _connected = std::net::TcpStream::connect(address).unwrap();
            let here = |mut sockets: Vec<Socket>| {
                sockets.retain(|socket| socket.address.port() == address.port());
                sockets
            };
            let dumped = here(dump(family).unwrap());
            assert_eq!(dumped, here(table(name).unwrap()));
            assert_eq!(dumped.len(), 1, "{dumped:?}");
            assert_eq!(dumped[0].address, address);
        }
    }

    #[test]
    fn an_answer_that_is_not_understood_is_none() {
        let message = |kind: u16, body: &[u8]| {
            let length = u32::try_from(HEADER + body.len()).unwrap();
            let kind = kind.to_ne_bytes();
            [&length.to_ne_bytes(), &kind[..], &[0; 10], body].concat()
        };
        let mut body = [0; 72];
        body[0] = 2;
        body[4..6].copy_from_slice(&3000_u16.to_be_bytes());
        body[8..12].copy_from_slice(&[127, 0, 0, 1]);
        body[68..].copy_from_slice(&4242_u32.to_ne_bytes());
        let listens = message(BY_FAMILY, &body);
        let read = |part: &[u8]| {
            let mut sockets = Vec::new();
            (read_part(part, &mut sockets), sockets)
        };
        let expected = Socket {
            address: "127.0.0.1:3000".parse().unwrap(),
            inode: 4242,
            uid: 0,
        };
        assert_eq!(read(&listens), (Some(false), vec![expected]));
        let done = [&listens[..], &message(DONE, &[0; 4])].concat();
        assert_eq!(read(&done), (Some(true), vec![expected]));
        assert_eq!(read(&message(ERROR, &[0; 4])).0, None);
        body[0] = 1;
        assert_eq!(read(&message(BY_FAMILY, &body)).0, None);
        for end in 1..listens.len() {
            assert_eq!(read(&listens[..end]).0, None, "{end}");
        }
        assert_eq!(read(&[0; 32]).0, None);
    }
}
