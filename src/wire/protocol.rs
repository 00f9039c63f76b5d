//! Compatibility of programs of different versions on one socket: each request contains the version
//! of the client.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::socket::Request;
use crate::model::{Error, ErrorKind};

/// The version of requests and answers. It is raised when a request or an answer changes so that
/// the previous version would misread it. A new request needs no new version.
pub const PROTOCOL: u32 = 1;

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Requests that every version understands from every other: they show the status of a daemon of
/// another version, stop it, and replace it.
const UNDERSTOOD_BY_ALL: [&str; 3] = ["status", "stop", "makeRoom"];

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
    /// The request that is addressed to a session.
    request: Option<RequestTag>,
}

#[derive(Debug, Deserialize)]
struct RequestTag {
    op: Option<String>,
}

impl Caller {
    fn is_understood(&self) -> bool {
        let by_all = |op: &String| UNDERSTOOD_BY_ALL.contains(&op.as_str());
        self.protocol.is_none_or(|protocol| protocol == PROTOCOL)
            || self.op.as_ref().is_some_and(by_all)
    }

    /// Whether a newer program launches a task without having asked for our version. It replaces us
    /// first, or repeats the launch without the session's name.
    fn would_replace_us(&self) -> bool {
        let is_launch = |request: &RequestTag| request.op.as_deref() == Some("run");
        self.op.as_deref() == Some("to")
            && self.request.as_ref().is_some_and(is_launch)
            && self
                .version
                .as_deref()
                .is_some_and(|theirs| is_older(VERSION, theirs))
    }

    fn refusal(&self) -> Error {
        let theirs = self.version.as_deref().unwrap_or("unknown");
        let theirs: String = theirs.chars().filter(|c| c.is_ascii_graphic()).collect();
        let message = format!(
            "the daemon of this session is version {VERSION}, this command is {theirs:.20}"
        );
        let refusal = Error::new(ErrorKind::Version, message);
        if is_older(&theirs, VERSION) {
            return refusal.with_hint("update this program: the daemon is newer");
        }
        // The command knows what to do about an older daemon.
        refusal
    }
}

/// Whether one version of this program is older than another. Texts that are not versions are not.
pub fn is_older(version: &str, than: &str) -> bool {
    let (Some(version), Some(than)) = (numbers(version), numbers(than)) else {
        return false;
    };
    version < than
}

/// Returns the numbers of a version and whether it is a release: `0.2.0-rc1` is older than `0.2.0`.
fn numbers(version: &str) -> Option<([u64; 3], bool)> {
    let version = version.split('+').next()?;
    let (numbers, is_release) = match version.split_once('-') {
        Some((numbers, _)) => (numbers, false),
        None => (version, true),
    };
    let mut parts = numbers.split('.').map(|part| part.parse().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some((numbers, is_release))
}

/// Returns the line for this request, including its line end.
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
pub fn parse_request(line: &[u8]) -> Result<Request, Error> {
    let caller: Caller = serde_json::from_slice(line).unwrap_or_default();
    if !caller.is_understood() || caller.would_replace_us() {
        return Err(caller.refusal());
    }
    parse_object(line).map_err(|error| {
        let is_other = |version: &String| version != VERSION;
        if caller.version.as_ref().is_some_and(is_other) {
            return caller.refusal();
        }
        Error::usage(format!("not a request: {error}"))
    })
}

/// Parses a line of JSON in which every object is written as one. Without this check a list of an
/// object's values would count as the object.
///
/// # Errors
///
/// When it is something else.
pub fn parse_object<T: DeserializeOwned + Serialize>(line: &[u8]) -> Result<T, serde_json::Error> {
    let parsed: T = serde_json::from_slice(line)?;
    if line.contains(&b'[') {
        let given: Value = serde_json::from_slice(line)?;
        if has_list_for_object(&given, &serde_json::to_value(&parsed)?) {
            return Err(serde_json::Error::custom("a list where an object belongs"));
        }
    }
    Ok(parsed)
}

/// Whether there is a list in `given` where `meant`, what it was understood as, has an object.
fn has_list_for_object(given: &Value, meant: &Value) -> bool {
    match (given, meant) {
        (Value::Array(_), Value::Object(_)) => true,
        (Value::Array(given), Value::Array(meant)) => {
            let mut pairs = given.iter().zip(meant);
            pairs.any(|(given, meant)| has_list_for_object(given, meant))
        }
        (Value::Object(given), Value::Object(meant)) => given.iter().any(|(key, given)| {
            let meant = meant.get(key);
            meant.is_some_and(|meant| has_list_for_object(given, meant))
        }),
        (_, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Acknowledgement;

    #[track_caller]
    fn check(line: &str, expected: Result<Request, ErrorKind>) {
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
    fn a_list_of_its_values_is_no_object() {
        for line in [
            r#"["status"]"#,
            r#"["stop",true]"#,
            r#"["removeConsumer","pi"]"#,
            r#"{"op":"to","session":"s","request":["status"]}"#,
            r#"{"op":"to","session":"s","request":["stop",false]}"#,
            r#"{"op":"subscribe","start":{"after":[null,1]},"filter":{}}"#,
            r#"{"op":"subscribe","start":"now","filter":[["event"],[],[],[],null,[]]}"#,
        ] {
            check(line, Err(ErrorKind::Usage));
        }
        let ack = |line: &str| parse_object::<Acknowledgement>(line.as_bytes()).map(|one| one.ack);
        assert_eq!(ack(r#"{"ack":12,"more":[1]}"#).unwrap(), 12);
        for line in ["[12]", " [12]\n", "[[12]]", "12", r#"{"ack":[12]}"#, "{}"] {
            assert!(ack(line).is_err(), "{line}");
        }
        let subscribe = r#"{"op":"subscribe","start":{"after":{"epoch":null,"seq":1}},"filter":{"kinds":["event"]}}"#;
        let parsed = parse_request(subscribe.as_bytes()).unwrap();
        assert_eq!(parse_request(&request_line(&parsed)), Ok(parsed));
    }

    #[test]
    fn another_version_is_named_and_can_still_be_asked_after_and_stopped() {
        let other = r#""protocol":99,"version":"9.9.9""#;
        check(
            &format!(r#"{{{other},"op":"list"}}"#),
            Err(ErrorKind::Version),
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
    fn versions_are_compared_by_their_numbers() {
        for (older, newer) in [
            ("0.1.0", "0.2.0"),
            ("0.9.0", "0.10.0"),
            ("0.2.0-rc1", "0.2.0"),
            ("0.1.9", "1.0.0-alpha"),
        ] {
            assert!(is_older(older, newer), "{older} {newer}");
            assert!(!is_older(newer, older), "{older} {newer}");
            assert!(!is_older(older, older), "{older}");
        }
        for odd in ["", "1", "1.2", "1.2.3.4", "a.b.c", "unknown"] {
            assert!(!is_older(odd, "9.9.9") && !is_older("0.0.1", odd), "{odd}");
        }
    }

    #[test]
    fn an_older_program_is_asked_to_be_updated() {
        let hint = |version: &str| {
            let line = format!(r#"{{"protocol":99,"version":"{version}","op":"list"}}"#);
            parse_request(line.as_bytes()).unwrap_err().hint
        };
        assert!(hint("0.0.1").unwrap().contains("update this program"));
        assert_eq!(hint("9.9.9"), None);
    }

    #[test]
    fn a_request_of_a_later_version_with_the_same_protocol_is_no_usage_error() {
        let line = format!(r#"{{"protocol":{PROTOCOL},"version":"9.9.9","op":"fly"}}"#);
        check(&line, Err(ErrorKind::Version));
    }

    #[test]
    fn a_newer_program_learns_our_version_before_it_launches() {
        let spec = r#"{"command":["true"],"cwd":"/"}"#;
        let plan = format!(
            r#""name":"api","spec":{spec},"token":"1-2","program":"p","file":"f","started":0"#
        );
        let run = format!(r#"{{"op":"run",{plan},"replaces":"any","willWait":false}}"#);
        let to = |version: &str| {
            format!(
                r#"{{"protocol":{PROTOCOL},"version":"{version}","op":"to","session":"work","request":{run}}}"#
            )
        };
        for version in [VERSION, "0.0.1"] {
            let parsed = parse_request(to(version).as_bytes());
            assert!(matches!(parsed, Ok(Request::To { .. })), "{parsed:?}");
        }
        check(&to("9.9.9"), Err(ErrorKind::Version));
        // Once it knows that we stay, it launches without the session's name.
        let run = run.replacen(
            '{',
            &format!(r#"{{"protocol":{PROTOCOL},"version":"9.9.9","#),
            1,
        );
        let parsed = parse_request(run.as_bytes());
        assert!(matches!(parsed, Ok(Request::Run(_))), "{parsed:?}");
    }

    #[test]
    fn readers_that_say_no_version_are_served() {
        check(r#"{"op":"list"}"#, Ok(Request::List));
        check(r#"{"op":"fly"}"#, Err(ErrorKind::Usage));
        check("[]", Err(ErrorKind::Usage));
        check("", Err(ErrorKind::Usage));
    }

    #[test]
    fn a_hostile_version_stays_one_short_line() {
        let line = r#"{"protocol":99,"version":"\u001b[31m\n9999999999999999999999","op":"list"}"#;
        let message = parse_request(line.as_bytes()).unwrap_err().message;
        assert!(message.len() < 100 && !message.contains(['\n', '\u{1b}']));
    }
}
