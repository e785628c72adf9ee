// SPDX-License-Identifier: GPL-2.0-only
//! Long work outside of kernels, which a limit of the caller ends: computations, the host's
//! resolver.

use outboard::stopped;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread::Builder;
use std::time::Duration;

/// How often the waiting thread looks at its limits.
const LOOK: Duration = Duration::from_millis(50);

/// Computes on another thread. Once a limit has stopped the caller, that thread is left behind: it
/// drops its result when it ends. The result is an error if there can be no thread.
pub fn aside<T: Send + 'static>(
    compute: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (sender, receiver) = channel();
    // A caller that has gone has no use for the result.
    let work = move || drop(sender.send(compute()));
    let started = Builder::new().spawn(work);
    started.map_err(|error| format!("there is no thread for it: {error}"))?;
    loop {
        match (receiver.recv_timeout(LOOK), stopped()) {
            (Ok(result), _) => return result,
            (Err(RecvTimeoutError::Timeout), None) => {}
            (Err(RecvTimeoutError::Timeout), Some(stopped)) => return Err(stopped.to_string()),
            (Err(RecvTimeoutError::Disconnected), _) => {
                return Err("its computation has panicked".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::Cancel;

    #[test]
    fn a_limit_ends_the_wait() {
        assert_eq!(aside(|| Ok(7)), Ok(7));
        let (end, ended) = channel::<()>();
        let cancel = Cancel::new();
        cancel.cancel();
        let endless = move || ended.recv().map_err(|error| error.to_string());
        assert_eq!(cancel.run(|| aside(endless)), Err("cancelled".to_owned()));
        drop(end);
        assert!(aside::<()>(|| panic!("on purpose")).is_err());
    }
}
