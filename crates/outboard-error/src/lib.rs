// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
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
