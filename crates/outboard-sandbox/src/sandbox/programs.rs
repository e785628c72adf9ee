// SPDX-License-Identifier: GPL-2.0-only
//! Sandboxes other programs, such as checkers of file systems, which parse images as our kernel
//! does. They can read and run programs and libraries, and read or change named files, and nothing
//! else. No network, no namespaces, no mounts, no tracing; of root's capabilities only those for
//! files and, where a program packs a tree, for their attributes.

use super::files::{is_in_a_directory, NODES};
use super::filter;
use super::rights;
use landlock::{
    path_beneath_rules, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, ABI,
};
use std::io;
use std::path::PathBuf;

const NEWEST: ABI = ABI::V6;
/// Directories of programs and libraries, in all distributions.
const PROGRAMS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
];
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];

/// The needs of a program on the host, besides itself.
#[derive(Clone, Debug, Default)]
pub struct ProgramFiles {
    /// The program, if it does not come from the distribution.
    pub program: PathBuf,
    /// Files to read; of directories everything below.
    pub reads: Vec<PathBuf>,
    /// Files to change; of directories everything below.
    pub writes: Vec<PathBuf>,
    /// Run by root, the program reads attributes that other users do not even see. The capability
    /// for that permits more: the program has fewer system calls.
    pub attributes: bool,
}

fn restrict(files: &ProgramFiles) -> Result<RulesetStatus, RulesetError> {
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let run = read | AccessFs::Execute;
    let reads = files.reads.iter().filter(is_in_a_directory);
    let writes = files.writes.iter().filter(is_in_a_directory);
    let status = Ruleset::default()
        .handle_access(all)?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(PROGRAMS, run))?
        .add_rules(path_beneath_rules([&files.program], run))?
        .add_rules(path_beneath_rules(DEVICES, read | AccessFs::WriteFile))?
        .add_rules(path_beneath_rules(reads, read))?
        .add_rules(path_beneath_rules(
            writes,
            all & !(NODES | AccessFs::Execute),
        ))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// Restricts the calling thread and the programs that it starts. Returns whether files are
/// restricted: some hosts have no Landlock.
pub fn shut_in(files: &ProgramFiles) -> io::Result<bool> {
    let status = restrict(files).map_err(io::Error::other)?;
    rights::drop_all_but_files(files.attributes).map_err(io::Error::other)?;
    match filter::apply_to_programs(files.attributes) {
        Err(error) if !filter::is_missing(&error) => return Err(io::Error::other(error)),
        _ => {}
    }
    Ok(status != RulesetStatus::NotEnforced)
}
