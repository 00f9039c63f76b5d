//! What a tool is: its arguments, its description, and what the tools of a client share.

use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, JsonObject,
    RequestMetaObject, Tool, ToolAnnotations,
};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::{OnceCell, oneshot, watch};
use tokio::task::spawn_local;

use super::call::{Call, Reporter, ToolAnswer, Wait, caller_of, within_time};
use super::other_host;
use crate::ops::{SessionChoice, TaskSession, end_of_events};
use crate::wire::After;

/// How often a client should ask whether a call has ended, in milliseconds.
const POLL_MS: u64 = 500;

/// A tool: its fields are the arguments of a call. Its doc comment, and those of the fields, are what a model
/// reads.
pub(super) trait ToolCall: DeserializeOwned + JsonSchema {
    const NAME: &'static str;
    /// What it is called where people read it.
    const TITLE: &'static str;
    const EFFECT: ToolEffect;
    /// The arguments that may not be left out.
    const REQUIRED: &'static [&'static str] = &[];

    /// Executes a call.
    async fn execute(self, client: &Client, call: &Call) -> Result<CallToolResponse, ToolAnswer>;
}

/// What the calls of a tool change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolEffect {
    /// Nothing.
    Nothing,
    /// Tasks end.
    EndsTasks,
    /// Whatever a command or a typed line does.
    Anything,
}

/// What the calls of one client share.
pub(super) struct Client {
    pub(super) choice: SessionChoice,
    /// The end of the feed at the first call. Events before it are of no interest.
    pub(super) begin: OnceCell<After>,
    /// The calls that were answered with a handle.
    pub(super) handles: TaskManager,
    /// Whether the client has closed the connection.
    closed: watch::Receiver<bool>,
}

impl Client {
    pub(super) fn new(choice: SessionChoice, closed: watch::Receiver<bool>) -> Self {
        Self {
            choice,
            begin: OnceCell::new(),
            handles: TaskManager::new(),
            closed,
        }
    }

    /// Returns the call with this `_meta`.
    pub(super) fn call_of(
        &self,
        meta: &RequestMetaObject,
        takes_handles: bool,
        reporter: &Reporter,
    ) -> Call {
        let token = meta.get_progress_token();
        Call {
            caller: caller_of(&meta.0.0),
            progress: token.map(|token| (token, reporter.clone())),
            closed: self.closed.clone(),
            takes_handles,
        }
    }

    /// Returns the session, as each command finds it.
    pub(super) async fn session(&self) -> Result<TaskSession, ToolAnswer> {
        let mut session = TaskSession::named(&self.choice)?;
        within_time(session.resolve_name()).await?;
        within_time(self.begin.get_or_try_init(|| end_of_events(&session))).await?;
        Ok(session)
    }

    /// Returns what a wait ended with, below these lines, or a handle for a result that comes later.
    pub(super) async fn follow(
        &self,
        call: &Call,
        lines: Vec<String>,
        wait: Wait,
    ) -> Result<CallToolResponse, ToolAnswer> {
        if call.takes_handles {
            return Ok(self.later(wait));
        }
        let work = call.attend(&wait.what, wait.limit, wait.outcome);
        let ToolAnswer { text, is_error } = work.await?;
        let ToolAnswer { text, .. } = ToolAnswer::new(lines.into_iter().chain([text]));
        Ok(ToolAnswer { text, is_error }.into())
    }

    /// Returns a handle for a result that comes later. A client that cancels it ends the wait.
    fn later(&self, wait: Wait) -> CallToolResponse {
        // A run may take any time.
        let options = TaskOptions::new()
            .with_ttl_ms(None)
            .with_poll_interval_ms(POLL_MS)
            .with_status_message(wait.what);
        // What waits stays on this thread.
        let (sender, answer) = oneshot::channel();
        let waiting = spawn_local(async move { sender.send(wait.outcome.await) });
        let task = self.handles.spawn(options, |context| {
            Box::pin(async move {
                tokio::select! {
                    answer = answer => answer.map(Into::into).map_err(|_| TaskExit::Cancelled),
                    () = context.cancelled() => {
                        waiting.abort();
                        Err(TaskExit::Cancelled)
                    }
                }
            })
        });
        CallToolResponse::Task(CreateTaskResult::new(task))
    }
}

impl From<ToolAnswer> for CallToolResult {
    fn from(ToolAnswer { text, is_error }: ToolAnswer) -> Self {
        let content = vec![ContentBlock::text(text)];
        match is_error {
            true => Self::error(content),
            false => Self::success(content),
        }
    }
}

impl From<ToolAnswer> for CallToolResponse {
    fn from(answer: ToolAnswer) -> Self {
        CallToolResult::from(answer).into()
    }
}

/// Reads a tool's arguments.
pub(super) fn parse<T: ToolCall>(mut arguments: JsonObject) -> Result<T, ToolAnswer> {
    for name in T::REQUIRED {
        let is_empty = match arguments.get(*name) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.trim().is_empty(),
            Some(Value::Array(values)) => values.is_empty(),
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => false,
        };
        if is_empty {
            return Err(ToolAnswer::refused(&format!("`{name}` is missing"), None));
        }
    }
    // A null is what some clients send for an argument that is left out.
    arguments.retain(|_, value| !value.is_null());
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let path = error.path().to_string();
        let why = error.into_inner().to_string();
        let why = match path == "." || why.contains(&path) {
            true => why,
            false => format!("`{path}`: {why}"),
        };
        ToolAnswer::refused(&why, None)
    })
}

/// Returns the description of a tool for clients, without what costs a model tokens and says nothing.
pub(super) fn describe<T: ToolCall>() -> Tool {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let generator = settings.into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.remove("title");
    let description = schema.remove("description").unwrap_or_default();
    let description = description.as_str().unwrap_or_default().replace('\n', " ");
    if !T::REQUIRED.is_empty() {
        schema.insert("required".to_owned(), T::REQUIRED.into());
    }
    let properties = schema
        .ensure_object()
        .entry("properties")
        .or_insert_with(|| Map::new().into());
    if let Some(properties) = properties.as_object_mut() {
        properties.values_mut().for_each(simplify);
        let host = json!({"type": "string", "description": other_host::DESCRIPTION});
        properties.insert(other_host::ARGUMENT.to_owned(), host);
    }
    let (is_reader, is_open) = (
        T::EFFECT == ToolEffect::Nothing,
        T::EFFECT == ToolEffect::Anything,
    );
    let annotations = ToolAnnotations::with_title(T::TITLE)
        .read_only(is_reader)
        .open_world(is_open);
    let annotations = match is_reader {
        true => annotations,
        false => annotations.destructive(true).idempotent(!is_open),
    };
    let schema = std::mem::take(schema.ensure_object());
    Tool::new(T::NAME, description, schema).with_annotations(annotations)
}

/// An argument that may be left out need not be null as well, and its default is the obvious one.
fn simplify(argument: &mut Value) {
    let Some(fields) = argument.as_object_mut() else {
        return;
    };
    for superfluous in ["default", "format", "minimum"] {
        fields.remove(superfluous);
    }
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            fields.insert("type".to_owned(), one);
        }
    }
}
