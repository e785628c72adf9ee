// SPDX-License-Identifier: GPL-2.0-only
//! Makes images of containers ready: one file system of their layers, in the user's cache.
//!
//! | step | in |
//! |---|---|
//! | read the index, the manifest and the configuration, and compare their digests | this process |
//! | look for the file system in the cache (`cache`) | this process |
//! | read the layers, compare their digests, write the file system (`unpack`) | the sandbox |

mod cache;
mod digest;
mod docker_archive;
mod documents;
mod found;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod layered_tree;
mod layout;
mod prepare;
mod section;
mod stop_signal;
mod unpack;

pub use prepare::prepare;
