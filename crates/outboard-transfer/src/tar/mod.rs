// SPDX-License-Identifier: GPL-2.0-only
//! Unpacks archives into images and packs images into archives, for `tar-in` and `tar-out`.
//!
//! `member` reads all formats in use. `encode` writes PAX, the only format with all metadata of
//! a file. The crate `tar` knows the headers' layout; its own reader and writer know neither PAX
//! sparse files nor values with newlines.

mod acl;
mod attributes;
mod changes;
mod compression;
mod create;
mod directories;
mod encode;
mod extract;
mod flights;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod globals;
mod header;
pub mod input;
mod link_data;
mod member;
pub mod output;
mod pack;
mod packer;
mod pax;
mod pending;
mod polled;
mod selection;
mod sparse;
mod stream;
mod stretch;
mod stretches;
mod tree;
pub mod visit;

pub use attributes::MemberAttributes;
pub use changes::{find_owner, MemberChanges};
pub use compression::{decompressed as plain_reader, Format};
pub use directories::clean;
pub use extract::Options;
pub use member::{Member, MemberKind};
pub use selection::Selection;
pub use tree::Choice;
