//! Whether a task answers over HTTP.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::config::HttpUrl;
use crate::model::PortHolder;
use crate::process;

/// How much of an answer is read for its status, in bytes.
const MAX_HEAD: u64 = 64 << 10;

async fn addresses_of(url: &HttpUrl) -> Result<Vec<SocketAddr>, String> {
    if url.host == "localhost" {
        let both = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        return Ok(both.map(|ip: IpAddr| SocketAddr::new(ip, url.port)).into());
    }
    let found = lookup_host((url.host.as_str(), url.port)).await;
    let found = found.map(Iterator::collect);
    found.map_err(|error| error.to_string())
}

/// Asks once, within this time. On this machine, the run with this first process has to answer itself.
pub(super) async fn get(url: &HttpUrl, leader: Option<u32>, limit: Duration) -> Result<(), String> {
    let asked = async {
        let mut why = None;
        for address in addresses_of(url).await? {
            let found = match get_at(url, address).await {
                Ok(200..=399) => {
                    let is_own = |leader| process::answers_at(leader, address);
                    if !address.ip().is_loopback() || leader.is_some_and(is_own) {
                        return Ok(());
                    }
                    let others = process::port_holders(address.port(), leader);
                    let words = others.first().map(PortHolder::words);
                    words.unwrap_or_else(|| "another process answers".to_owned())
                }
                Ok(status) => format!("answered {status}"),
                // What another of its addresses does says more.
                Err(error) if why.is_some() && error.kind() == ErrorKind::ConnectionRefused => {
                    continue;
                }
                Err(error) => error.to_string(),
            };
            why = Some(found);
        }
        Err(why.unwrap_or_else(|| "has no address".to_owned()))
    };
    let late = |_| Err("no answer in time".to_owned());
    timeout(limit, asked).await.unwrap_or_else(late)
}

/// Returns the status of the answer.
async fn get_at(url: &HttpUrl, address: SocketAddr) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect(address).await?;
    let HttpUrl {
        host, port, path, ..
    } = url;
    let host = match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tmux-task\r\nAccept: */*\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    final_status(BufReader::new(stream.take(MAX_HEAD))).await
}

/// Returns the status of an answer. Interim ones, such as 103, come before it.
async fn final_status(mut answer: impl AsyncBufRead + Unpin) -> std::io::Result<u16> {
    loop {
        let mut line = Vec::new();
        answer.read_until(b'\n', &mut line).await?;
        let status = parse_status(&line)
            .ok_or_else(|| std::io::Error::other("answered something else than HTTP"))?;
        // Another protocol (101) has no answer behind it, and was not asked for.
        if status == 101 || !(100..200).contains(&status) {
            return Ok(status);
        }
        while !line.trim_ascii().is_empty() {
            line.clear();
            answer.read_until(b'\n', &mut line).await?;
        }
    }
}

/// Returns the status in the first line of an answer.
fn parse_status(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let digits = rest.get(2..5).filter(|_| rest.get(1) == Some(&b' '))?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_in_the_first_line() {
        for (line, expected) in [
            ("HTTP/1.1 200 OK\r\n", Some(200)),
            ("HTTP/1.0 503 \n", Some(503)),
            ("HTTP/1.1 404", Some(404)),
            ("HTTP/1.1 20", None),
            ("HTTP/2 200\r\n", None),
            ("SSH-2.0-OpenSSH\r\n", None),
            ("", None),
        ] {
            assert_eq!(parse_status(line.as_bytes()), expected, "{line}");
        }
    }

    #[tokio::test]
    async fn interim_answers_come_before_the_answer() {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\n", Some(200)),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 X\r\n", Some(404)),
            (
                "HTTP/1.1 102 X\r\nA: b\r\n\r\nHTTP/1.1 103 X\nA: b\n\nHTTP/1.1 204 X\r\n",
                Some(204),
            ),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\n", Some(101)),
            ("HTTP/1.1 103 X\r\nA: b\r\n", None),
            ("HTTP/1.1 103 X\r\n\r\nmore\r\n", None),
        ] {
            assert_eq!(
                final_status(answer.as_bytes()).await.ok(),
                expected,
                "{answer}"
            );
        }
    }
}
