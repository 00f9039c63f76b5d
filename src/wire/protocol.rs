//! The lines of the socket: each request contains the version of the client. Programs of different versions
//! understand each other's `status` and `stop` alone: a command stops a daemon of another version, and starts
//! one of its own.

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Map, Value};

use super::socket::Request;
use crate::model::{Error, ErrorKind};

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Requests that every version understands from every other.
const UNDERSTOOD_BY_ALL: [&str; 2] = ["status", "stop"];

#[derive(Serialize)]
struct RequestLine<'a> {
    version: &'a str,
    #[serde(flatten)]
    request: &'a Request,
}

/// Returns the line for this request, including its line end.
pub fn request_line(request: &Request) -> Vec<u8> {
    let line = RequestLine {
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
    let fields: Map<String, Value> = serde_json::from_slice(line).unwrap_or_default();
    let field = |name| fields.get(name).and_then(Value::as_str);
    // Feed readers that use the socket themselves may omit the version.
    if let Some(theirs) = field("version").filter(|version| *version != VERSION)
        && !field("op").is_some_and(|op| UNDERSTOOD_BY_ALL.contains(&op))
    {
        let theirs: String = theirs.chars().filter(|c| c.is_ascii_graphic()).collect();
        let message = format!(
            "the daemon of this session is version {VERSION}, this command is {theirs:.20}"
        );
        return Err(Error::new(ErrorKind::Version, message));
    }
    parse_object(line).map_err(|error| Error::usage(format!("not a request: {error}")))
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
        let other = r#""version":"9.9.9""#;
        check(
            &format!(r#"{{{other},"op":"status"}}"#),
            Ok(Request::Status),
        );
        check(
            &format!(r#"{{{other},"op":"stop","cleanup":false}}"#),
            Ok(Request::Stop { cleanup: false }),
        );
        for op in ["list", "fly"] {
            let line = format!(r#"{{{other},"op":"{op}"}}"#);
            check(&line, Err(ErrorKind::Version));
            let message = parse_request(line.as_bytes()).unwrap_err().message;
            assert!(message.ends_with("this command is 9.9.9"), "{message}");
        }
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
        let line = r#"{"version":"\u001b[31m\n9999999999999999999999","op":"list"}"#;
        let message = parse_request(line.as_bytes()).unwrap_err().message;
        assert!(message.len() < 100 && !message.contains(['\n', '\u{1b}']));
    }
}
