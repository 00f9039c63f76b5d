//! What stories await: a value that is set later, by an input or by the link.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

/// A value, once it is set, and who waits for it.
type Slot<T> = Mutex<(Option<T>, Option<Waker>)>;

/// A value that a story awaits.
#[derive(Debug)]
pub(crate) struct Promise<T>(Arc<Slot<T>>);

/// Sets the value of a promise, and so resumes its story.
#[derive(Debug)]
pub(crate) struct Resolver<T>(Weak<Slot<T>>);

/// Returns a promise and what resolves it.
pub(crate) fn promise<T>() -> (Resolver<T>, Promise<T>) {
    let slot = Arc::new(Mutex::new((None, None)));
    (Resolver(Arc::downgrade(&slot)), Promise(slot))
}

impl<T> Resolver<T> {
    /// Sets the value; nothing is done if the story is gone.
    pub(crate) fn resolve(&self, value: T) {
        let Some(slot) = self.0.upgrade() else { return };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.0 = Some(value);
        if let Some(waker) = slot.1.take() {
            waker.wake();
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl<T> Promise<T> {
    pub(super) fn take(self) -> Option<T> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.0.take()
    }
}

impl<T> Clone for Resolver<T> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0))
    }
}

impl<T> Future for Promise<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.0.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
