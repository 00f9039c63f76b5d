//! Checks end in time, whatever hangs.

use std::future::Future;
use std::time::Duration;

use super::finding::Finding;
use crate::model::with_causes;

/// How long a check may take. All checks together take little longer than the slowest.
pub(super) const LIMIT: Duration = Duration::from_secs(3);

/// Returns the result of a check, or that it did not end in time.
pub(super) async fn within<T>(
    limit: Duration,
    check: impl Future<Output = T>,
) -> Result<T, Finding> {
    let result = tokio::time::timeout(limit, check).await;
    result.map_err(|_elapsed| Finding::NoAnswer { within: limit })
}

/// Returns the result of a check that touches the disk, or that it did not end in time. A disk that
/// hangs keeps the thread.
pub(super) async fn on_disk(check: impl FnOnce() -> Finding + Send + 'static) -> Finding {
    let checked = within(LIMIT, tokio::task::spawn_blocking(check)).await;
    match checked {
        Ok(Ok(finding)) | Err(finding) => finding,
        Ok(Err(error)) => Finding::BadFolder {
            why: with_causes(&error),
        },
    }
}
