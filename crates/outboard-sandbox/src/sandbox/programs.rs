// SPDX-License-Identifier: GPL-2.0-only
//! Other programs, such as checkers of file systems, which look at images as our kernel does: they are shut in too. Programs and
//! libraries can be read and run, what is named can be read or changed, and nothing else; no network, no name spaces,
//! no mounts, no tracing, and of root's rights only those for files.

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
/// Where programs and libraries are, of distributions of all kinds.
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

/// What a program uses of the host, besides itself.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The program, if it is none of the distribution's.
    pub program: PathBuf,
    /// What it may read; of directories all below them.
    pub reads: Vec<PathBuf>,
    /// What it may change; of directories all below them.
    pub writes: Vec<PathBuf>,
}

fn restrict(files: &Files) -> Result<RulesetStatus, RulesetError> {
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

/// For the calling thread and what it starts. Tells whether files are kept from it: some hosts have no Landlock.
pub fn shut_in(files: &Files) -> io::Result<bool> {
    let status = restrict(files).map_err(io::Error::other)?;
    rights::drop_all_but_files().map_err(io::Error::other)?;
    match filter::apply_to_programs() {
        Err(error) if !filter::is_missing(&error) => return Err(io::Error::other(error)),
        _ => {}
    }
    Ok(status != RulesetStatus::NotEnforced)
}
