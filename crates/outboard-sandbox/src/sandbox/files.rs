// SPDX-License-Identifier: GPL-2.0-only
//! Landlock rules: they allow the named files of the host and TCP to the named servers' ports, and
//! forbid sockets and signals out of the sandbox.

use super::access::HostAccess;
use landlock::{
    make_bitflags, path_beneath_rules, Access, AccessFs, AccessNet, BitFlags, NetPort, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope, ABI,
};
use outboard_error::{Error, Result};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The newest rights known here; the host's Landlock may have fewer, or none.
const NEWEST: ABI = ABI::V6;

/// Device nodes.
pub const NODES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeChar | MakeBlock});

/// The host's boot id: it shows whether a snapshot was checked since the host booted.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// GLib, which libslirp uses, takes its random numbers from here.
const RANDOM: &str = "/dev/urandom";

/// The program contains the kernel's image.
const PROGRAM: &str = "/proc/self/exe";

/// A file that does not exist yet is created in its directory.
fn existing(path: &Path) -> PathBuf {
    let here = Path::new(".");
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => here.to_owned(),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    };
    match path.symlink_metadata() {
        Ok(_) => path.to_owned(),
        Err(_) => parent(path),
    }
}

/// Whether a rule can be made for a file. A file in no directory, such as a pipe of `/dev/fd`, has
/// no rule and needs none: Linux lets a process reopen its open files.
pub fn is_in_a_directory(path: &&PathBuf) -> bool {
    let Ok(file) = File::options()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path)
    else {
        return true;
    };
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::read_link(link).map_or(true, |name| {
        name.is_absolute() && !name.as_os_str().as_bytes().starts_with(b"/memfd:")
    })
}

fn apply(
    access: &HostAccess,
    snapshots: Option<&PathBuf>,
    components: &[PathBuf],
) -> std::result::Result<(), RulesetError> {
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    // A command that opens files later must not be able to change snapshots: the next command
    // starts from them.
    let cache = if access.is_images_only() { all } else { read };
    let mut change = all & !AccessFs::Execute;
    if !access.makes_nodes {
        change &= !NODES;
    }
    let writes: Vec<PathBuf> = access.writes.iter().map(|path| existing(path)).collect();
    let reads = access.reads.iter().filter(is_in_a_directory);
    let writes = writes.iter().filter(is_in_a_directory);
    let network = access.network.as_ref();
    let random = network.map(|_| RANDOM);
    let ports: &[u16] = network.map_or(&[], |network| &network.ports);
    let rule = |&port| Ok::<_, RulesetError>(NetPort::new(port, AccessNet::ConnectTcp));
    let ports = ports.iter().map(rule);
    let ruleset = Ruleset::default().handle_access(all)?;
    let ruleset = if network.is_some_and(|network| network.listens) {
        ruleset
    } else if network.is_some_and(|network| network.ports.is_empty()) {
        ruleset.handle_access(AccessNet::BindTcp)?
    } else {
        ruleset.handle_access(AccessNet::from_all(NEWEST))?
    };
    ruleset
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(reads, read))?
        .add_rules(path_beneath_rules(components, read))?
        .add_rules(path_beneath_rules(writes, change))?
        .add_rules(path_beneath_rules(snapshots, cache))?
        .add_rules(path_beneath_rules(snapshots.map(|_| BOOT_ID), read))?
        .add_rules(path_beneath_rules([PROGRAM], read))?
        .add_rules(path_beneath_rules(random, read))?
        .add_rules(ports)?
        .restrict_self()?;
    Ok(())
}

/// Restricts the calling thread and the threads that it creates.
pub fn restrict(
    access: &HostAccess,
    snapshots: Option<&PathBuf>,
    components: &[PathBuf],
) -> Result<()> {
    apply(access, snapshots, components)
        .map_err(|error| Error::Failed(format!("cannot restrict access to files: {error}")))
}
