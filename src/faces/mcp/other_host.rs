//! Calls of tools on another machine: a server of its own there executes each, for as long as it takes.

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ErrorData, JsonObject, ProgressNotificationParam,
};
use rmcp::service::{Peer, RoleServer};
use serde_json::{Value, from_value, json};

use super::answer::ToolAnswer;
use crate::config;
use crate::hosts::{
    Channel, FarCall, FarCaller, Host, HostError, HostFailure, Questions, Ssh, connect,
    this_machine,
};
use crate::model::with_causes;
use crate::ops::{Caller, SessionChoice, TaskSession, lookup, note_host};

/// The argument of every tool that names the machine.
pub(super) const ARGUMENT: &str = "host";

/// What the argument is.
pub(super) const DESCRIPTION: &str = "The machine (ssh), if not this one";

/// The number of the request that is passed on.
const REQUEST: u64 = 2;

#[derive(Debug)]
pub(super) struct HostCall {
    host: String,
    request: CallToolRequestParams,
    caller: Caller,
}

impl From<HostError> for ToolAnswer {
    fn from(error: HostError) -> Self {
        let HostFailure { why, hint } = error.into();
        Self::refused(&why, hint.as_deref())
    }
}

impl HostCall {
    /// Takes the machine out of a call's arguments; `None` if it names none. `meta` goes with the call.
    pub(super) fn take(
        request: &mut CallToolRequestParams,
        meta: &JsonObject,
        caller: Caller,
    ) -> Result<Option<Self>, ToolAnswer> {
        let arguments = request.arguments.as_mut();
        let Some(host) = arguments.and_then(|arguments| arguments.remove(ARGUMENT)) else {
            return Ok(None);
        };
        let Value::String(host) = host else {
            return Err(ToolAnswer::refused("`host` is not a text", None));
        };
        let mut request = request.clone();
        request.meta = from_value(Value::Object(meta.clone())).ok();
        Ok(Some(Self {
            host,
            request,
            caller,
        }))
    }

    /// Executes it. `peer` gets the progress that is reported there.
    pub(super) async fn execute(
        self,
        choice: &SessionChoice,
        peer: &Peer<RoleServer>,
    ) -> Result<Result<CallToolResult, ErrorData>, ToolAnswer> {
        let config = config::load(&lookup)
            .map_err(|error| ToolAnswer::refused(&with_causes(&error), None))?;
        let host = Host::named(&self.host, &config)?;
        // The host is not forgotten before a launch there is done.
        let _held = match &self.caller.owner {
            Some(owner) => note_host(owner, &host.name).await?,
            None => None,
        };
        let ssh = Ssh::prepare(&lookup)?;
        let mut channel = connect(&host, &ssh, Questions::Never).await?;
        channel.open(self.call(&host, choice)?);
        self.begin(&channel).await;
        while let Some(line) = channel.line().await? {
            let Ok(mut message) = serde_json::from_slice::<Value>(&line) else {
                continue;
            };
            if message["method"] == "notifications/progress" {
                if let Ok(report) =
                    from_value::<ProgressNotificationParam>(message["params"].take())
                {
                    // A client that is gone is noticed elsewhere.
                    drop(peer.notify_progress(report).await);
                }
            } else if message["id"] == REQUEST {
                if let Ok(error) = from_value(message["error"].take()) {
                    return Ok(Err(error));
                }
                let result = from_value(message["result"].take());
                return result.map(Ok).map_err(|_| Self::without_answer(&host));
            }
        }
        Err(Self::without_answer(&host))
    }

    fn without_answer(host: &Host) -> ToolAnswer {
        let why = format!("the server on {} did not answer", host.name);
        ToolAnswer::refused(&why, None)
    }

    /// Returns what is executed there.
    fn call(&self, host: &Host, choice: &SessionChoice) -> Result<FarCall, ToolAnswer> {
        let session = match &choice.session {
            Some(session) => session.clone(),
            None => TaskSession::name_from_here()?,
        };
        let here = std::env::current_dir().ok();
        let here = here.and_then(|dir| dir.to_str().map(str::to_owned));
        Ok(FarCall {
            args: vec!["mcp".to_owned()],
            caller: FarCaller {
                host: host.name.clone(),
                machine: this_machine(),
                ..FarCaller::default()
            },
            owner: self.caller.owner.clone(),
            session: Some(session),
            cwd: host.cwd.clone().or(here),
            needs_cwd: None,
            has_stdin: true,
        })
    }

    /// Greets the server there, and passes the request on.
    async fn begin(&self, channel: &Channel) {
        let initialize = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "tmux-task", "version": env!("CARGO_PKG_VERSION")},
        });
        let messages = [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({
                "jsonrpc": "2.0", "id": REQUEST, "method": "tools/call", "params": self.request,
            }),
        ];
        let input = channel.input();
        for message in messages {
            input.write(format!("{message}\n").as_bytes()).await;
        }
    }
}
