//! Compatibility of programs of different versions on one socket: each request contains the version
//! of the client.

use serde::{Deserialize, Serialize};

use super::socket::{Refusal, RefusalKind, Request};

/// The version of requests and answers. It is raised when a request or an answer changes so that
/// the previous version would misread it. A new request needs no new version.
pub const PROTOCOL: u32 = 1;

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Requests that every version understands from every other: they show the status of a daemon of
/// another version, and stop it.
const UNDERSTOOD_BY_ALL: [&str; 3] = ["whereabouts", "status", "stop"];

#[derive(Serialize)]
struct RequestLine<'a> {
    protocol: u32,
    version: &'a str,
    #[serde(flatten)]
    request: &'a Request,
}

/// The fields beside a request. Feed readers that use the socket themselves may omit them.
#[derive(Debug, Default, Deserialize)]
struct Caller {
    op: Option<String>,
    protocol: Option<u32>,
    version: Option<String>,
}

impl Caller {
    fn is_understood(&self) -> bool {
        let by_all = |op: &String| UNDERSTOOD_BY_ALL.contains(&op.as_str());
        self.protocol.is_none_or(|protocol| protocol == PROTOCOL)
            || self.op.as_ref().is_some_and(by_all)
    }

    fn refusal(&self) -> Refusal {
        let theirs = self.version.as_deref().unwrap_or("unknown");
        let theirs: String = theirs.chars().filter(|c| c.is_ascii_graphic()).collect();
        let message = format!(
            "the daemon of this session is version {VERSION}, this command is {theirs:.20}"
        );
        Refusal::new(RefusalKind::Version, message)
    }
}

/// Returns the line for this request, including its line end.
#[must_use]
pub fn request_line(request: &Request) -> Vec<u8> {
    let line = RequestLine {
        protocol: PROTOCOL,
        version: VERSION,
        request,
    };
    let mut line = serde_json::to_vec(&line).expect("a request is plain data");
    line.push(b'\n');
    line
}

/// Parses the line of a request.
///
/// # Errors
///
/// When it is not a request, or a request of another version that this one does not understand.
pub fn parse_request(line: &[u8]) -> Result<Request, Refusal> {
    let caller: Caller = serde_json::from_slice(line).unwrap_or_default();
    if !caller.is_understood() {
        return Err(caller.refusal());
    }
    serde_json::from_slice(line).map_err(|error| {
        let is_other = |version: &String| version != VERSION;
        if caller.version.as_ref().is_some_and(is_other) {
            return caller.refusal();
        }
        Refusal::new(RefusalKind::Usage, format!("not a request: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<Request, RefusalKind>) {
        let parsed = parse_request(line.as_bytes());
        assert_eq!(parsed.map_err(|refusal| refusal.kind), expected, "{line}");
    }

    #[test]
    fn this_version_understands_its_own_requests() {
        for request in [
            Request::List,
            Request::Status,
            Request::Stop { cleanup: true },
        ] {
            let line = request_line(&request);
            assert_eq!(parse_request(&line), Ok(request));
        }
    }

    #[test]
    fn another_version_is_named_and_can_still_be_asked_after_and_stopped() {
        let other = r#""protocol":99,"version":"9.9.9""#;
        check(
            &format!(r#"{{{other},"op":"list"}}"#),
            Err(RefusalKind::Version),
        );
        check(
            &format!(r#"{{{other},"op":"status"}}"#),
            Ok(Request::Status),
        );
        check(
            &format!(r#"{{{other},"op":"stop","cleanup":false}}"#),
            Ok(Request::Stop { cleanup: false }),
        );
        let line = format!(r#"{{{other},"op":"list"}}"#);
        let message = parse_request(line.as_bytes()).unwrap_err().message;
        assert!(message.ends_with("this command is 9.9.9"), "{message}");
    }

    #[test]
    fn a_request_of_a_later_version_with_the_same_protocol_is_no_usage_error() {
        let line = format!(r#"{{"protocol":{PROTOCOL},"version":"9.9.9","op":"fly"}}"#);
        check(&line, Err(RefusalKind::Version));
    }

    #[test]
    fn readers_that_say_no_version_are_served() {
        check(r#"{"op":"list"}"#, Ok(Request::List));
        check(r#"{"op":"fly"}"#, Err(RefusalKind::Usage));
        check("[]", Err(RefusalKind::Usage));
        check("", Err(RefusalKind::Usage));
    }

    #[test]
    fn a_hostile_version_stays_one_short_line() {
        let line = r#"{"protocol":99,"version":"\u001b[31m\n9999999999999999999999","op":"list"}"#;
        let message = parse_request(line.as_bytes()).unwrap_err().message;
        assert!(message.len() < 100 && !message.contains(['\n', '\u{1b}']));
    }
}
