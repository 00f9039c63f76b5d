//! Calls of tools on another machine: a server of its own there executes each.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ErrorData, JsonObject, ProgressNotificationParam,
};
use serde_json::{Value, from_value, json};

use super::call::{Reporter, caller_of};
use crate::client::hosts::{FarProcess, Host};
use crate::model::{Error, FarCall, FarStdin};
use crate::ops::{SessionChoice, lookup, note_host};

/// The argument of every tool that names the machine.
pub(super) const ARGUMENT: &str = "host";

pub(super) const DESCRIPTION: &str = "The machine (ssh, or of the fleet), if not this one";

/// The id of the answer to a single call.
pub(super) const CALL: u64 = 2;

/// What the protocol's own names begin with in `_meta`.
const PROTOCOL: &str = "io.modelcontextprotocol/";

/// In `_meta` of a call and of its answer: the end of the feed there at the first call to the machine, as
/// [`After`](crate::rules::wire::After) or null. Each call has a server of its own there, which cannot know it.
pub(super) const BEGIN: &str = "tmux-task/begin";

/// The ends of the feeds of other machines at the first calls to them, by the name of the machine.
pub(super) type HostBegins = BTreeMap<String, Value>;

/// The arguments of the program for a single call.
pub(crate) const SINGLE_CALL: [&str; 2] = ["mcp", "--call"];

/// Returns the command as which a tool counts for the broker's permissions; its own name if it does not go
/// through the broker.
fn verb_of_tool(tool: &str) -> &str {
    match tool {
        "list_tasks" => "ls",
        "read_output" | "search_output" => "logs",
        "wait_for" => "wait",
        "run_task" => "run",
        "send_input" => "send",
        "kill_task" => "kill",
        other => other,
    }
}

/// Returns why a call that comes by the broker as this verb is not executed.
pub(crate) fn refusal(verb: &str, request: &str) -> Option<String> {
    let request: Value = serde_json::from_str(request).unwrap_or_default();
    let name = request["name"].as_str().unwrap_or_default();
    let has = |argument: &&str| request["arguments"].get(argument).is_some();
    if verb_of_tool(name) != verb {
        Some(format!("`{name}` is not `{verb}`"))
    } else if let Some(other) = [ARGUMENT, "channel"].iter().find(|other| has(other)) {
        Some(format!(
            "`{name}` does not take `{other}` through the broker"
        ))
    } else if verb == "send" && !request["arguments"]["prompt"].is_string() {
        Some(format!("`{name}` through the broker needs `prompt`"))
    } else {
        None
    }
}

/// Executes a call on this machine. The client gets the progress that is reported there.
pub(super) async fn execute_there(
    host: Value,
    mut request: CallToolRequestParams,
    choice: &SessionChoice,
    begins: &RefCell<HostBegins>,
    meta: &JsonObject,
    reporter: &Reporter,
) -> Result<Result<CallToolResult, ErrorData>, Error> {
    let Value::String(name) = host else {
        return Err(Error::usage("`host` is not a text"));
    };
    let host = Host::named(&name, &lookup)?;
    // How the client speaks is for this server. A handle would end with the one there.
    let mut passed_on = meta.clone();
    passed_on.retain(|name, _| !name.starts_with(PROTOCOL));
    passed_on.insert(BEGIN.to_owned(), json!(begins.borrow().get(&name)));
    request.meta = from_value(Value::Object(passed_on)).ok();
    let args = SINGLE_CALL.map(str::to_owned).to_vec();
    let call = FarCall {
        verb: verb_of_tool(&request.name).to_owned(),
        session: Some(choice.name()?),
        stdin: FarStdin::Text(json!(request).to_string()),
        ..host.call(args, caller_of(meta).owner)
    };
    // The host is not forgotten before a launch there is done.
    let mut _held = None;
    let process = match FarProcess::start_in_fleet(&host, &call).await? {
        Some(process) => process,
        None => {
            _held = note_host(&call, choice)?;
            FarProcess::start(&host, false, &call).await?
        }
    };
    let mut answer = answer_of(&host, process, reporter).await?;
    let meta = answer.as_mut().ok().and_then(|answer| answer.meta.as_mut());
    // A call that has failed early does not know it.
    let begin = meta.and_then(|meta| meta.remove(BEGIN));
    if let Some(begin) = begin.filter(|begin| !begin.is_null()) {
        begins.borrow_mut().entry(name).or_insert(begin);
    }
    Ok(answer)
}

/// Passes on the progress of a call, and returns its answer.
async fn answer_of(
    host: &Host,
    mut process: FarProcess,
    reporter: &Reporter,
) -> Result<Result<CallToolResult, ErrorData>, Error> {
    let without_answer = || Error::failed(format!("the server on {} did not answer", host.name));
    while let Ok(line) = process.line().await? {
        let Ok(mut message) = serde_json::from_slice::<Value>(&line) else {
            continue;
        };
        if message["method"] == "notifications/progress" {
            if let Ok(report) = from_value::<ProgressNotificationParam>(message["params"].take()) {
                // A client that is gone is noticed elsewhere.
                drop(reporter.send(report));
            }
        } else if message["id"] == CALL {
            if let Ok(error) = from_value(message["error"].take()) {
                return Ok(Err(error));
            }
            let result = from_value(message["result"].take());
            return result.map(Ok).map_err(|_| without_answer());
        }
    }
    Err(without_answer())
}
