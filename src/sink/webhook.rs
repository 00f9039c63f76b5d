//! An address to which each record is posted.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac::{self, HMAC_SHA256};
use tokio::task::spawn_blocking;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::delivery::Delivery;
use super::message::Message;
use crate::config::MessageConfig;
use crate::files;
use crate::model::{Error, Millis};

/// The longest key, in bytes.
const MAX_KEY: u64 = 4096;

/// The longest file of certificates, in bytes.
const MAX_CERTIFICATES: u64 = 1 << 20;

/// An address. Redirects are not followed.
///
/// Its files are read for each record, so that what replaces them applies at once.
#[derive(Debug, Clone)]
pub(crate) struct Webhook {
    /// The address.
    pub(crate) url: String,
    /// The file with the key of the signature.
    pub(crate) secret_file: Option<PathBuf>,
    /// The file with the certificates that the peer's must be signed by, instead of those that the
    /// program has.
    pub(crate) ca_file: Option<PathBuf>,
    /// What is sent.
    pub(crate) message: MessageConfig,
    /// How long a delivery may take.
    pub(crate) timeout: Duration,
}

impl Webhook {
    /// Posts the record. The peer has it if its answer is a success.
    pub(super) async fn deliver(&self, delivery: &Delivery, now: Millis) -> Result<(), Error> {
        let seconds = now / 1000;
        let Message { headers, body } = Message::of(&self.message, delivery);
        let mut request = self
            .agent()?
            .post(&self.url)
            .header("webhook-id", &delivery.id)
            .header("webhook-timestamp", seconds.to_string());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(path) = &self.secret_file {
            let key = read_key(path).map_err(|why| unusable(path, &why))?;
            let signature = key.sign(&delivery.id, seconds, body.as_bytes());
            request = request.header("webhook-signature", signature);
        }
        let sent = spawn_blocking(move || request.send(body)).await;
        let answer = sent
            .map_err(|error| Error::failed(error.to_string()))?
            .map_err(|error| Error::failed(error.to_string()))?;
        if answer.status().is_success() {
            return Ok(());
        }
        let status = answer.status().as_u16();
        Err(Error::failed(format!("the answer was {status}")))
    }

    /// Returns what posts one record. Connections are not kept: between two records the peer may close
    /// them.
    fn agent(&self) -> Result<Agent, Error> {
        let mut config = Agent::config_builder()
            .timeout_global(Some(self.timeout))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("tmux-task/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = &self.ca_file {
            let certificates = read_certificates(path).map_err(|why| unusable(path, &why))?;
            let roots = RootCerts::new_with_certs(&certificates);
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        Ok(config.build().new_agent())
    }
}

/// The key of the signature, or the certificates, cannot be used.
fn unusable(path: &Path, why: &str) -> Error {
    Error::failed(format!("could not use {}: {why}", path.display()))
}

fn read_certificates(path: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let mut pem = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_CERTIFICATES).read_to_end(&mut pem));
    read.map_err(|error| error.to_string())?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| error.to_string())? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err("it has no certificate".to_owned());
    }
    Ok(certificates)
}

/// Reads a key from a file that only its user can read.
fn read_key(path: &Path) -> Result<Key, String> {
    let contents = files::read_secret(path, MAX_KEY)?;
    Key::parse(&contents).map_err(str::to_owned)
}

// The signature of a webhook, as <https://www.standardwebhooks.com> defines it: a peer can verify it
// with any library for that.

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
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, "sixteen bytes or more").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let Err(why) = read_key(&path) else {
            panic!("it was used");
        };
        assert_eq!(
            why,
            "other users can read it (mode 0644); `chmod 600` closes it"
        );
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(read_key(&path).is_ok());
        let Err(why) = read_certificates(&path) else {
            panic!("it was used");
        };
        assert_eq!(why, "it has no certificate");
    }
}

#[cfg(test)]
mod signature_tests {
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
