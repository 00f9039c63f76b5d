//! Checks values against a JSON schema. It knows the keywords that the feed's schema uses and
//! panics at others, so that no rule of the schema is passed over.

use serde_json::{Map, Value};

/// Keywords that describe and demand nothing.
const NOTES: [&str; 5] = ["$schema", "title", "description", "default", "$defs"];

/// The formats of numbers. `minimum` demands what they say of the sign; that a number is not too
/// large for its type is checked here.
fn largest(format: &str) -> u64 {
    match format {
        "int32" => 0x7fff_ffff,
        "uint32" => u64::from(u32::MAX),
        "int64" => 0x7fff_ffff_ffff_ffff,
        "uint" | "uint64" => u64::MAX,
        other => panic!("unknown format {other}"),
    }
}

/// Returns what is wrong with `value`; `Ok` if it conforms to the schema `root`.
pub(super) fn validate(root: &Value, value: &Value) -> Result<(), String> {
    check(root, root, value, "$")
}

/// Panics if a rule anywhere in the schema is not understood, also where no value has reached it.
pub(super) fn understand(root: &Value) {
    let defined = root["$defs"].as_object().expect("$defs are an object");
    for schema in defined.values().chain([root]) {
        understand_rules(root, schema);
    }
}

fn understand_rules(root: &Value, schema: &Value) {
    // A schema that is wrong in itself fails here whatever the value is.
    drop(check(root, schema, &Value::Null, ""));
    let all = object(schema).iter().flat_map(|(keyword, rule)| {
        let below: Vec<&Value> = match keyword.as_str() {
            "properties" => object(rule).values().collect(),
            "oneOf" | "anyOf" => array(rule).iter().collect(),
            "items" => vec![rule],
            _ => Vec::new(),
        };
        below
    });
    all.for_each(|schema| understand_rules(root, schema));
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let mut wrong = None;
    for (keyword, rule) in object(schema) {
        // Each rule is read even if another one is broken.
        let outcome = check_rule(root, (keyword, rule), value, at);
        wrong = wrong.or(outcome.err());
    }
    wrong.map_or(Ok(()), Err)
}

fn check_rule(
    root: &Value,
    (keyword, rule): (&String, &Value),
    value: &Value,
    at: &str,
) -> Result<(), String> {
    let holds = match keyword.as_str() {
        "type" => types(rule).iter().any(|name| has_type(value, name)),
        "const" => value == rule,
        "minimum" => {
            let least = rule.as_i64().expect("a minimum is an integer");
            // Above the largest i64 it is larger than any minimum.
            !value.is_i64() || value.as_i64() >= Some(least)
        }
        "format" => {
            let largest = largest(rule.as_str().expect("a format is a word"));
            value.as_u64().is_none_or(|number| number <= largest)
        }
        "required" => {
            let mut names = array(rule).iter().map(word);
            let fields = value.as_object();
            fields.is_none_or(|fields| names.all(|name| fields.contains_key(name)))
        }
        "properties" => {
            for (name, schema) in object(rule) {
                if let Some(field) = value.get(name) {
                    check(root, schema, field, &format!("{at}.{name}"))?;
                }
            }
            true
        }
        "items" => {
            for (n, item) in value.as_array().into_iter().flatten().enumerate() {
                check(root, rule, item, &format!("{at}[{n}]"))?;
            }
            true
        }
        "$ref" => {
            let pointer = word(rule).strip_prefix('#').expect("a place in the schema");
            let schema = root.pointer(pointer).expect("the place exists");
            return check(root, schema, value, at);
        }
        "oneOf" | "anyOf" => {
            let outcomes: Vec<_> = array(rule)
                .iter()
                .map(|schema| check(root, schema, value, at))
                .collect();
            let n = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
            if n == 0 {
                let why: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
                return Err(format!("{at}: none of:\n  {}", why.join("\n  ")));
            }
            n == 1 || keyword == "anyOf"
        }
        note if NOTES.contains(&note) => true,
        other => panic!("unknown keyword {other}"),
    };
    if holds {
        Ok(())
    } else {
        Err(format!("{at}: {value} breaks {keyword}: {rule}"))
    }
}

/// The names of types that a rule lists.
fn types(rule: &Value) -> Vec<&str> {
    match rule.as_array() {
        Some(names) => names.iter().map(word).collect(),
        None => vec![word(rule)],
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    }
}

fn object(rule: &Value) -> &Map<String, Value> {
    rule.as_object().expect("the rule is an object")
}

fn array(rule: &Value) -> &Vec<Value> {
    rule.as_array().expect("the rule is an array")
}

fn word(rule: &Value) -> &str {
    rule.as_str().expect("the rule is a string")
}
