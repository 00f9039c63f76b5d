//! Where events go besides to agents: the desktop and terminals (`notice`), programs, webhooks and the
//! fleet (`sink`).

pub mod notice;
pub(crate) mod sink;
