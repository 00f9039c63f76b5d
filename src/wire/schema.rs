//! The JSON Schema of the feed, generated from the types that write it.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;

use super::StreamRecord;

/// Returns the JSON Schema of a line of the feed or of a live stream. Readers may rely on it as
/// follows: other fields may be added, and fields that are not required may be missing in lines of
/// an older version.
pub fn feed_schema() -> serde_json::Value {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(tidy));
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<StreamRecord>();
    schema.insert("title".to_owned(), "A line of a tmux-task feed".into());
    schema.to_value()
}

/// Joins wrapped comments, and drops defaults, which the types contain as `null` already.
fn tidy(schema: &mut Schema) {
    if let Some(serde_json::Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if schema
        .get("default")
        .is_some_and(serde_json::Value::is_null)
    {
        schema.remove("default");
    }
}
