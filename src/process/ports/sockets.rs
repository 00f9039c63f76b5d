//! The TCP sockets that listen, as `sock_diag(7)` lists them: these alone, in a tenth of a millisecond.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

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
    let mut sockets = dump(AddressFamily::INET).ok()?;
    // A kernel may be without IPv6.
    sockets.extend(dump(AddressFamily::INET6).unwrap_or_default());
    sockets.retain(|socket| port.is_none_or(|port| port == socket.address.port()));
    Some(sockets)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_lists_what_listens_and_no_connection() {
        for ip in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(ip) else {
                // A machine may be without IPv6.
                continue;
            };
            let address = listener.local_addr().unwrap();
            let _connected = std::net::TcpStream::connect(address).unwrap();
            let family = match address {
                SocketAddr::V4(_) => AddressFamily::INET,
                SocketAddr::V6(_) => AddressFamily::INET6,
            };
            let mut dumped = dump(family).unwrap();
            dumped.retain(|socket| socket.address.port() == address.port());
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
