// SPDX-License-Identifier: GPL-2.0-only
//! From the name of a volume to a mounted tree.
//!
//! A name such as `laptop.qcow2@3@@home` ([`address`]) leads to an image file ([`image_file`],
//! [`held`]), the disk in it ([`containers`]: qcow2 and others), its partitions ([`image`]), the
//! layers in those ([`layers`]: LUKS, LVM, MD, dm-verity, dm-integrity, subvolumes), and a mounted
//! file system. A [`session`] does all of this with one kernel, in the sandbox. Tools of the
//! distribution get a volume as a file ([`volume`], [`export`]); what they change in place can be
//! undone ([`scratch`], [`undo`]).

pub mod address;
pub mod containers;
pub mod destination;
pub mod export;
pub mod held;
pub mod host_mounts;
pub mod image;
pub mod image_file;
pub mod image_lock;
pub mod layers;
pub mod limits;
pub mod loop_devices;
pub mod new_image;
pub mod octal;
pub mod options;
pub mod scratch;
pub mod servers;
pub mod session;
pub mod snapshots;
pub mod standard_input;
pub mod temporary;
pub mod undo;
pub mod uuid;
pub mod volume;
pub mod warnings;
