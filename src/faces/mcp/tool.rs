//! What a tool is: its arguments, and its description for clients.

use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations,
};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::call::{Call, Reply, ToolAnswer};
use super::other_host;
use crate::model::Error;
use crate::ops::TaskSession;

/// A tool: its fields are the arguments of a call. Its doc comment, and those of the fields, are what a model
/// reads.
pub(super) trait ToolCall: DeserializeOwned + JsonSchema + 'static {
    const NAME: &'static str;
    /// What it is called where people read it.
    const TITLE: &'static str;
    const EFFECT: ToolEffect;
    /// The arguments that may not be left out.
    const REQUIRED: &'static [&'static str] = &[];

    /// Executes a call in this session.
    async fn execute(self, session: TaskSession, call: &Call) -> Result<Reply, Error>;
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
pub(super) fn parse<T: ToolCall>(mut arguments: JsonObject) -> Result<T, Error> {
    for name in T::REQUIRED {
        let is_empty = match arguments.get(*name) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.trim().is_empty(),
            Some(Value::Array(values)) => values.is_empty(),
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => false,
        };
        if is_empty {
            return Err(Error::usage(format!("`{name}` is missing")));
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
        Error::usage(why)
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
