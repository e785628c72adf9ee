// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod owners;
pub mod server;
