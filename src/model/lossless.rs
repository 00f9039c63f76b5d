//! Texts and paths of the system in JSON, whatever their bytes are: a string, or a list of bytes where
//! they are not UTF-8.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) OsString);

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes(Vec<u8>),
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self(match Written::deserialize(from)? {
            Written::Text(text) => text.into(),
            Written::Bytes(bytes) => OsString::from_vec(bytes),
        }))
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Borrowed(&self.0).serialize(to)
    }
}

struct Borrowed<'a>(&'a OsStr);

impl Serialize for Borrowed<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => text.serialize(to),
            None => self.0.as_bytes().serialize(to),
        }
    }
}

pub(in crate::model) mod words {
    use super::{Borrowed, Deserialize, Deserializer, OsString, Serializer, Text};

    pub(in crate::model) fn serialize<S: Serializer>(
        words: &[OsString],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(words.iter().map(|word| Borrowed(word)))
    }

    pub(in crate::model) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<OsString>, D::Error> {
        let words: Vec<Text> = Vec::deserialize(from)?;
        Ok(words.into_iter().map(|word| word.0).collect())
    }
}

pub(in crate::model) mod optional_path {
    use std::path::PathBuf;

    use super::{Borrowed, Deserialize, Deserializer, Serialize as _, Serializer, Text};

    pub(in crate::model) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let path = path.as_ref().map(|path| Borrowed(path.as_os_str()));
        path.serialize(to)
    }

    pub(in crate::model) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        let path: Option<Text> = Option::deserialize(from)?;
        Ok(path.map(|path| path.0.into()))
    }
}
