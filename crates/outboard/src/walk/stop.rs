// SPDX-License-Identifier: GPL-2.0-only
//! Ends a walk before its end.

/// Tells a walk whether to end before its end.
pub trait Stop {
    /// Polled for each file.
    fn asked(&self) -> bool;
}

/// Never.
impl Stop for () {
    fn asked(&self) -> bool {
        false
    }
}
