// SPDX-License-Identifier: GPL-2.0-only
//! The functions of `outboard/volume.h` and `outboard/server.h`, which document them. Two libraries
//! are made of this crate: liboutboard-volume and liboutboard-server.
//!
//! Each function is a few lines: it checks its arguments (`argument`), finds the objects of its
//! handles (`handle`), calls the Rust API, and returns a number (`result`). A panic of Rust
//! becomes an error there. The code that trusts pointers of the caller is in `argument` and
//! `memory`. The rest of the `unsafe` code names structs that begin with their size, finds the
//! tables of handles, and notices forks.

mod argument;
mod attributes;
mod build;
mod disk;
mod file;
mod fork;
mod handle;
mod limit;
mod list;
mod memory;
mod open;
mod path;
mod result;
mod serve;
mod stat;
mod transfer;
mod volume;
mod watch;
