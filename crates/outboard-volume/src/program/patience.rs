// SPDX-License-Identifier: GPL-2.0-only
//! How long waits of several files last.

use std::time::Duration;

/// Until a signal is passed on, a window has its new size, and programs are killed again.
pub(super) const PATIENCE: Duration = Duration::from_millis(20);
