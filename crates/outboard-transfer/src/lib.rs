// SPDX-License-Identifier: GPL-2.0-only
//! Moving trees into, out of and between images.
//!
//! [`cp`] copies trees, [`tar`] packs and unpacks archives; both use several threads, keep all
//! attributes that the destination can have, and report which ones they could not keep
//! ([`cp::report`]). [`walk`] goes through a tree of an image for all commands. The other modules
//! parse and print owners, modes, times, access lists and labels.

pub mod accounts;
pub mod acl;
pub mod claimed_size;
pub mod cp;
pub mod exclusion;
pub mod glob;
pub mod labels;
pub mod mode;
pub mod moment;
pub mod operand;
pub mod other_forms;
pub mod owner;
pub mod stream;
pub mod tar;
pub mod walk;
