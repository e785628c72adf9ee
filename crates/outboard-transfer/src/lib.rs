// SPDX-License-Identifier: GPL-2.0-only
//! Moving trees into, out of and between images.
//!
//! [`cp`] copies trees, [`tar`] packs and unpacks archives; both use several threads, keep all
//! attributes that the destination can have, and report what they could not keep
//! ([`cp::report`]). [`walk`] goes through a tree of an image for all commands. The other modules
//! understand what users write and what files have: owners, modes, times, access lists, labels.

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
