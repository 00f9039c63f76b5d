//! A host that publishes what a test says, by the documented layout.

use std::time::Duration;

use async_nats::jetstream::{self, Context, kv, stream};
use async_nats::{ConnectOptions, HeaderMap};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::Broker;

/// Hosts of a fleet, on one connection to its broker.
pub(crate) struct FleetHosts {
    pub(crate) runtime: Runtime,
    pub(crate) context: Context,
}

impl FleetHosts {
    /// Connects, and creates what daemons create.
    pub(crate) fn of(broker: &Broker) -> Self {
        let hosts = Self::connect(broker);
        hosts.create();
        hosts
    }

    /// Connects; nothing is created.
    pub(crate) fn connect(broker: &Broker) -> Self {
        Self::with(broker, ConnectOptions::new())
    }

    /// Connects with these options.
    pub(crate) fn with(broker: &Broker, options: ConnectOptions) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        // Within the runtime: the context has a task of its own.
        let context = runtime
            .block_on(async { jetstream::new(options.connect(broker.url()).await.unwrap()) });
        Self { runtime, context }
    }

    /// Creates the streams and buckets.
    pub(crate) fn create(&self) {
        let streams = [("TT_FEED", "tt.v1.feed.>"), ("TT_WAKE", "tt.v1.wake.>")];
        self.runtime.block_on(async {
            for (name, subjects) in streams {
                let config = stream::Config {
                    name: name.to_owned(),
                    subjects: vec![subjects.to_owned()],
                    allow_direct: true,
                    ..stream::Config::default()
                };
                self.context.create_stream(config).await.unwrap();
            }
            for bucket in ["TT_STATE", "TT_HOSTS"] {
                let config = kv::Config {
                    bucket: bucket.to_owned(),
                    history: 1,
                    limit_markers: Some(Duration::from_secs(3600)),
                    ..kv::Config::default()
                };
                self.context.create_key_value(config).await.unwrap();
            }
        });
    }

    /// Removes the messages before this one.
    pub(crate) fn purge_up_to(&self, stream: &str, place: u64) {
        self.runtime.block_on(async {
            let stream = self.context.get_stream(stream).await.unwrap();
            stream.purge().sequence(place).await.unwrap();
        });
    }

    /// Publishes a text to a subject.
    #[track_caller]
    pub(crate) fn publish(&self, subject: &str, headers: &[(&str, &str)], text: &str) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, *value);
        }
        let (subject, text) = (subject.to_owned(), text.to_owned());
        self.runtime.block_on(async {
            let sent = self.context.publish_with_headers(subject, map, text.into());
            sent.await.unwrap().await.unwrap();
        });
    }

    /// The host is there for this many seconds.
    pub(crate) fn beat(&self, host: &str, seconds: &str) {
        let value = json!({"v": 1, "host": host, "version": "0.1.0", "allow": ["ls"]});
        self.publish(
            &format!("$KV.TT_HOSTS.{host}"),
            &[("Nats-TTL", seconds)],
            &value.to_string(),
        );
    }

    /// The host has a session with these tasks.
    pub(crate) fn session(&self, host: &str, session: &str, tasks: &[(&str, &str, &str)]) {
        for (window, name, state) in tasks {
            let task = json!({"windowId": window, "windowName": name, "state": state,
                "paneStateKnown": true, "dead": *state == "exited", "exitCode": 2});
            let value = json!({"v": 1, "host": host, "sessionName": session, "task": task});
            let id = window.trim_start_matches('@');
            let key = format!("$KV.TT_STATE.{host}.{session}-key.w{id}");
            self.publish(&key, &[], &value.to_string());
        }
        let windows: Vec<&str> = tasks.iter().map(|(window, ..)| *window).collect();
        let value = json!({"v": 1, "host": host, "sessionName": session, "exists": true,
            "windows": windows});
        let key = format!("$KV.TT_STATE.{host}.{session}-key.session");
        self.publish(&key, &[], &value.to_string());
    }

    /// The host has recorded the end of a task.
    pub(crate) fn exited(&self, host: &str, seq: u64, name: &str) {
        self.publish(
            &format!("tt.v1.feed.{host}.work-key.event.exited"),
            &[],
            &exited(seq, name).to_string(),
        );
    }
}

/// The record of a task's end.
pub(crate) fn exited(seq: u64, name: &str) -> Value {
    json!({"v": 1, "seq": seq, "epoch": "e1", "time": "2026-01-01T00:00:01.250Z",
        "sessionName": "work", "kind": "event", "type": "exited", "level": "info",
        "task": {"windowId": "@1", "windowName": name, "paneStateKnown": true, "dead": true,
            "exitCode": 0, "outputPreview": ""}})
}
