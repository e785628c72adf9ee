// SPDX-License-Identifier: GPL-2.0-only
//! Answers to requests that are refused.

use outboard_protocol::frames::RunAnswer;

/// The exit code of a command whose request is refused.
pub const FAILED: u8 = 125;

/// The answer with this reason.
pub fn failed(reason: impl Into<String>) -> RunAnswer {
    RunAnswer::Failed {
        reason: reason.into(),
        code: FAILED,
    }
}
