// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
// `cp` copies trees, `tar` packs and unpacks archives; both use several threads, keep all
// attributes that the destination can have, and report what they could not keep (`report`). `walk`
// goes through a tree for commands that visit one file at a time; `cp::walk` and `tar::tree` say
// why they do not use it. `diff` compares trees, `find` has the language of searches. The other
// modules understand what users write and what files have: owners, modes, times, access lists,
// labels.
#![warn(missing_docs)]
// The front prints, not the engine.
#![warn(clippy::print_stderr, clippy::print_stdout)]

#[doc(hidden)]
pub mod accounts;
#[doc(hidden)]
pub mod acl;
#[doc(hidden)]
pub mod attributes;
#[doc(hidden)]
pub mod callback;
#[doc(hidden)]
pub mod claimed_size;
#[doc(hidden)]
pub mod cp;
#[doc(hidden)]
pub mod diff;
#[doc(hidden)]
pub mod exclusion;
mod file_state;
#[doc(hidden)]
pub mod find;
#[doc(hidden)]
pub mod glob;
#[doc(hidden)]
pub mod hidden;
#[doc(hidden)]
pub mod labels;
#[doc(hidden)]
pub mod login;
#[doc(hidden)]
pub mod made;
#[doc(hidden)]
pub mod mode;
#[doc(hidden)]
pub mod moment;
#[doc(hidden)]
pub mod mv;
#[doc(hidden)]
pub mod operand;
#[doc(hidden)]
pub mod other_forms;
#[doc(hidden)]
pub mod owner;
#[doc(hidden)]
pub mod remove;
#[doc(hidden)]
pub mod report;
#[doc(hidden)]
pub mod stream;
#[doc(hidden)]
pub mod tar;
mod transfer;
#[doc(hidden)]
pub mod volume_bytes;
#[doc(hidden)]
pub mod walk;
#[doc(hidden)]
pub mod wildcards;
mod zeros;

pub use callback::Count;
pub use cp::Keep;
#[doc(inline)]
pub use outboard::Cancel;
#[doc(inline)]
pub use outboard_error::{ErrorKind, Failure as Error, Hint};
pub use tar::Format;
pub use transfer::{Result, Summary, Transfer};

/// The programs on the page about the Rust API, which compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust-api.md")]
mod page {}
