// SPDX-License-Identifier: GPL-2.0-only
//! Errors of the engine: what failed, on which thing, why.
//!
//! A [`Failure`] has a kind ([`ErrorKind`]), the errno of its cause, its file, a text, and the
//! kernel's own words. Its advice is a [`Hint`], which the [`Front`] words. An [`Error`] is the end
//! of work: a failure, a call that makes no sense, a stop by the user. [`report`](report()) and
//! [`warn`](warn()) report to the front while work goes on; [`Notes`] collects these reports in
//! calls of the library. [`format`](mod@format) makes the parts of messages; [`size`] reads the
//! sizes that users write.

#![warn(missing_docs)]
// The front prints, not the engine.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod error;
mod failure;
pub mod format;
mod front;
mod hint;
mod notes;
mod report;
mod reported;
pub mod size;

pub use error::{Error, Failures, Result};
pub use failure::{reason, ErrorKind, Failure};
pub use front::{front, install, AtPanic, Front};
pub use hint::Hint;
pub use notes::Notes;
pub use report::{report, warn};
pub use reported::{Kept, Reported, Reports};
