// SPDX-License-Identifier: GPL-2.0-only
//! Writes EROFS images of trees that are in memory, without compression. mkfs.erofs can only pack a
//! directory of the host, which an ordinary user cannot give other owners and devices. Linux's
//! Documentation/filesystems/erofs.rst describes the format.
//!
//! | blocks | have |
//! |---|---|
//! | 0 | the superblock, at byte 1024 |
//! | then | contents of files, as they arrive ([`BlockFile`]); large directories and links |
//! | the last ones | inodes, each with its attributes and, if it is small, its directory or link |

mod block_file;
mod directory;
mod image;
mod image_plan;
mod inode;
mod tree;
mod xattr;

pub(crate) use block_file::BlockFile;
pub(crate) use image::write;
pub(crate) use tree::{Attributes, Contents, FileTree, NodeNumber, TreeEntry};
pub(crate) use xattr::{fit, is_known};
