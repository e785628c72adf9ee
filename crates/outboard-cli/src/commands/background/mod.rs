// SPDX-License-Identifier: GPL-2.0-only
//! Runs in the background: their start, and the commands that reach them by name.

pub mod exec;
pub mod logs;
pub mod named;
pub mod ps;
pub mod start;
pub mod stop;
