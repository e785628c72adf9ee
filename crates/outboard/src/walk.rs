// SPDX-License-Identifier: GPL-2.0-only
//! The walk through a tree. Every command that visits many files uses it; two trees side by side
//! are a [`PairWalk`] on two of it.
//!
//! The walk uses open directories and names in them, never paths: nothing in an image leads it
//! elsewhere, and a file costs one lookup at any depth. It keeps the directories on the way open (a
//! kernel in this process allows a million files). Its stack is its own, so a deep tree overflows
//! none. It reads a directory to the end before it returns a file in there, so the caller may empty
//! the directory on the way.
//!
//! | step | when |
//! |---|---|
//! | `Found` | for each file; for a directory before what is in it |
//! | `Opened` | for each directory that was entered |
//! | `Failed` | in place of `Opened`: the directory cannot be opened |
//! | `Failed` | after `Opened`: its listing ended with an error; the names before that follow |
//! | `Left` | for each directory that was found and not skipped, after what is in it |
//!
//! At `Found`, the caller may `skip` the directory, or `enter_other` in its place. At `Opened`, it
//! may sort and drop names.

mod names;
mod one;
mod pairs;
mod stop;

pub use names::DirectoryNames;
pub use one::{append, Entry, OpenDirectory, Start, Step, Walk, ITSELF};
pub use pairs::{PairStep, PairWalk};
pub use stop::Stop;
