//! The signature of a webhook, as <https://www.standardwebhooks.com> defines it: a peer can verify it
//! with any library for that.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac::{self, HMAC_SHA256};

/// The beginning of a key that is written in base64.
const IN_BASE64: &str = "whsec_";

/// The fewest bytes of a key.
const LEAST_BYTES: usize = 16;

/// A key. What it is never appears in a log or an error.
pub(super) struct Key(hmac::Key);

impl Key {
    /// Parses the contents of a file: base64 after `whsec_`, else the bytes themselves. A line end
    /// after it does not count.
    pub(super) fn parse(contents: &[u8]) -> Result<Self, &'static str> {
        let text = contents.trim_ascii_end();
        let bytes = match text.strip_prefix(IN_BASE64.as_bytes()) {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| "it is not base64")?,
            None => text.to_vec(),
        };
        if bytes.len() < LEAST_BYTES {
            return Err("it has less than 16 bytes");
        }
        Ok(Self(hmac::Key::new(HMAC_SHA256, &bytes)))
    }

    /// Returns the header `webhook-signature` of a request with these headers and this body.
    /// `seconds` is the time of the attempt, since 1970.
    pub(super) fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let mut signing = hmac::Context::with_key(&self.0);
        signing.update(format!("{id}.{seconds}.").as_bytes());
        signing.update(body);
        format!("v1,{}", STANDARD.encode(signing.sign()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_as_the_standard_shows_it() {
        // The example of the specification.
        let key = Key::parse(b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signature = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for contents in ["", "short", "whsec_", "whsec_%%%%%%%%%%%%%%%%%%%%%%%%%%%%"] {
            assert!(Key::parse(contents.as_bytes()).is_err(), "{contents}");
        }
        assert!(Key::parse(b"sixteen bytes or more\n").is_ok());
    }
}
