//! One text or a list of them, in what serde reads.

use std::fmt::{self, Formatter};

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A string, or a list.
#[derive(Debug)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Reads a string, or a list. `expected` describes it for errors.
pub(crate) fn one_or_many<'de, D: Deserializer<'de>>(
    from: D,
    expected: &'static str,
) -> Result<OneOrMany, D::Error> {
    from.deserialize_any(OneOrManyVisitor(expected))
}

struct OneOrManyVisitor(&'static str);

impl<'de> Visitor<'de> for OneOrManyVisitor {
    type Value = OneOrMany;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }

    fn visit_str<E: Error>(self, one: &str) -> Result<OneOrMany, E> {
        Ok(OneOrMany::One(one.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOrMany, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMany::Many)
    }
}
