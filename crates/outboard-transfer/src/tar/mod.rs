// SPDX-License-Identifier: GPL-2.0-only
//! Archives into and out of images, as `outboard tar-in` and `outboard tar-out` make and unpack them.
//!
//! What is read may be of any of the formats that are in use ([`member`]); what is written is PAX
//! ([`encode`]), the only one that has everything that a file may have. The crate `tar` knows the headers'
//! layout; its own reader and writer know neither PAX sparse files nor values with newlines.

mod acl;
mod changes;
mod compression;
mod create;
mod directories;
mod encode;
mod extract;
mod flights;
mod header;
pub mod input;
mod member;
pub mod output;
mod pack;
mod pax;
mod selection;
mod sparse;
mod stream;
mod tree;

pub use changes::{find_owner, Changes};
pub use compression::Format;
pub use extract::Options;
pub use selection::Selection;
pub use tree::Choice;
