//! A small HTTP server, for what is posted to addresses.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use super::DEADLINE;

/// A server that answers each request and keeps it for the test.
pub(crate) struct HttpServer {
    address: SocketAddr,
    requests: Receiver<Request>,
}

impl HttpServer {
    /// Starts a server that answers the first requests with these statuses, and others with 200.
    pub(crate) fn start<const N: usize>(statuses: [u16; N]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            let mut statuses = statuses.into_iter();
            for stream in listener.incoming() {
                let status = statuses.next().unwrap_or(200);
                if let Some(request) = answer(stream.unwrap(), status) {
                    sender.send(request).unwrap_or_default();
                }
            }
        });
        Self { address, requests }
    }

    /// Its address, without a path.
    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request.
    #[track_caller]
    pub(crate) fn next(&self) -> Request {
        self.requests.recv_timeout(DEADLINE).unwrap()
    }
}

/// A request that the server got.
pub(crate) struct Request {
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// Reads a request and answers it with this status.
fn answer(stream: TcpStream, status: u16) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim().split_once(": ") else {
            break;
        };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let answer = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\nlocation: /other\r\n\r\n"
    );
    reader.get_mut().write_all(answer.as_bytes()).unwrap();
    let body = String::from_utf8(body).unwrap();
    Some(Request {
        line,
        headers,
        body,
    })
}
