//! The connection to the client, which takes no further requests while many have no answer yet.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ClientNotification, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncRead;
use tokio::sync::Notify;

use super::messages::Messages;

/// How many requests may wait for their answers to be written. A client that reads no answers would
/// otherwise fill the memory with them: an answer has up to 64 KiB.
const MOST_UNANSWERED: usize = 256;

/// A transport that reads on only while few requests are unanswered.
pub(super) struct BoundedTransport<R, T: Transport<RoleServer>> {
    messages: Messages<R>,
    /// Only writes.
    inner: T,
    /// An error that is being written.
    writing: Option<Writing<T::Error>>,
    unanswered: Arc<Unanswered>,
}

type Writing<E> = Pin<Box<dyn Future<Output = Result<(), E>> + Send>>;

/// The requests whose answers are not written yet.
#[derive(Debug, Default)]
struct Unanswered {
    ids: Mutex<HashSet<RequestId>>,
    /// Notified when one is answered.
    answered: Notify,
}

impl<R: AsyncRead + Unpin, T: Transport<RoleServer>> BoundedTransport<R, T> {
    pub(super) fn new(input: R, inner: T) -> Self {
        Self {
            messages: Messages::new(input),
            inner,
            writing: None,
            unanswered: Arc::default(),
        }
    }
}

impl Unanswered {
    fn ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        // Nothing is left half done while it is held.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, id: Option<&RequestId>) {
        if id.is_some_and(|id| self.ids().remove(id)) {
            self.answered.notify_one();
        }
    }
}

impl<R: AsyncRead + Unpin + Send, T: Transport<RoleServer>> Transport<RoleServer>
    for BoundedTransport<R, T>
{
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let sent = self.inner.send(item);
        let unanswered = Arc::clone(&self.unanswered);
        async move {
            let sent = sent.await;
            unanswered.remove(answered.as_ref());
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        while self.unanswered.ids().len() >= MOST_UNANSWERED {
            self.unanswered.answered.notified().await;
        }
        let received = loop {
            if let Some(writing) = &mut self.writing {
                writing.as_mut().await.ok()?;
                self.writing = None;
            }
            match self.messages.next().await? {
                Ok(message) => break message,
                Err((error, id)) => {
                    let answer = JsonRpcMessage::error(error, id);
                    self.writing = Some(Box::pin(self.inner.send(answer)));
                }
            }
        };
        match &received {
            JsonRpcMessage::Request(request) => {
                self.unanswered.ids().insert(request.id.clone());
            }
            // A request that is cancelled gets no answer.
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                {
                    self.unanswered.remove(cancelled.params.request_id.as_ref());
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Some(received)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rmcp::transport::IntoTransport;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::time::timeout;

    use super::*;

    fn ping(id: usize) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")
    }

    fn answer(id: usize) -> TxJsonRpcMessage<RoleServer> {
        let result = rmcp::model::ServerResult::empty(());
        JsonRpcMessage::response(result, RequestId::Number(i64::try_from(id).unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_requests_are_read_than_may_be_unanswered() {
        let (client, server) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(server);
        let inner = IntoTransport::<RoleServer, _, _>::into_transport((tokio::io::empty(), output));
        let mut transport = BoundedTransport::new(input, inner);
        let (reader, mut writer) = tokio::io::split(client);
        let mut answers = BufReader::new(reader).lines();
        for id in 0..MOST_UNANSWERED + 2 {
            writer.write_all(ping(id).as_bytes()).await.unwrap();
        }
        for _ in 0..MOST_UNANSWERED {
            assert!(transport.receive().await.is_some());
        }
        let wait = Duration::from_secs(60);
        assert!(timeout(wait, transport.receive()).await.is_err());
        transport.send(answer(7)).await.unwrap();
        assert!(
            answers
                .next_line()
                .await
                .unwrap()
                .unwrap()
                .contains("\"id\":7")
        );
        assert!(transport.receive().await.is_some());
        assert!(timeout(wait, transport.receive()).await.is_err());
        transport.send(answer(8)).await.unwrap();
        assert!(transport.receive().await.is_some());
    }
}
