// SPDX-License-Identifier: GPL-2.0-only
//! All targets, by name. fuzz/seeds has a directory of seeds for each.

mod acl;
mod address;
mod client_frames;
mod compressed;
mod dm;
mod dns;
mod documents;
mod glob;
mod layers;
mod luks;
mod lvm;
mod md;
mod mode;
mod moment;
mod partitions;
mod pax;
mod probe;
mod qcow2;
mod remote_answer;
mod remote_call;
mod tar;
mod undo;
mod vhd;

type Target = fn(&[u8]);

pub const ALL: &[(&str, Target)] = &[
    ("acl", acl::run),
    ("address", address::run),
    ("client_frames", client_frames::run),
    ("compressed", compressed::run),
    ("dm", dm::run),
    ("dns", dns::run),
    ("documents", documents::run),
    ("glob", glob::run),
    ("layers", layers::run),
    ("luks", luks::run),
    ("lvm", lvm::run),
    ("md", md::run),
    ("mode", mode::run),
    ("moment", moment::run),
    ("partitions", partitions::run),
    ("pax", pax::run),
    ("probe", probe::run),
    ("qcow2", qcow2::run),
    ("remote_answer", remote_answer::run),
    ("remote_call", remote_call::run),
    ("tar", tar::run),
    ("undo", undo::run),
    ("vhd", vhd::run),
];
