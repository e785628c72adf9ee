// SPDX-License-Identifier: GPL-2.0-only
//! A mounted tree of an image as a file system of the host, by FUSE.
//!
//! [`server`] answers the requests of the host's kernel with calls of the kernel in this process;
//! [`owners`] maps users and groups of the image to those of the host.

#![warn(missing_docs)]

pub mod owners;
pub mod server;
