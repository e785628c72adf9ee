// SPDX-License-Identifier: GPL-2.0-only
//! Answers to requests that are refused.

use super::command::FAILED;
use outboard_protocol::frames::RunAnswer;

/// The answer with this reason.
pub(super) fn failed(reason: impl Into<String>) -> RunAnswer {
    RunAnswer::Failed {
        reason: reason.into(),
        code: FAILED,
    }
}
