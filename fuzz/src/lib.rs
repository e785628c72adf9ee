// SPDX-License-Identifier: GPL-2.0-only
//! The fuzz targets: one function for each parser of what a stranger made. src/main.rs gives them
//! mutated inputs, tests/seeds.rs gives them their seeds.

mod source;
pub mod targets;

use cap::Cap;
use std::alloc::System;

/// Bytes that a target may have allocated at one time. A parser that needs more for an input of at
/// most one megabyte believes a size that the input claims.
const MEMORY: usize = 256 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, MEMORY);
