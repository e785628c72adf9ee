// SPDX-License-Identifier: GPL-2.0-only
//! The network of programs, and the files by which they find names.
//!
//! | file | shown |
//! |---|---|
//! | /etc/hosts | if the volume has none: `localhost` and the host name |
//! | /etc/resolv.conf | if the kernel has name servers |

use outboard::{Kernel, ProgramRoot, Tree};
use outboard_error::{Error, Result};
use std::io::{self, Read};
use std::path::Path;

const HOSTS: &str = "/etc/hosts";
const RESOLVER: &str = "/etc/resolv.conf";
const HOST_NAME_FILE: &str = "/etc/hostname";
/// The host name of a volume that has none.
const DEFAULT_NAME: &str = "outboard";
/// Linux takes so many bytes.
const LONGEST_HOST_NAME: u64 = 64;

fn failed(error: io::Error) -> Error {
    Error::failed("cannot set up the network of programs", &error)
}

/// Gives the kernel the volume's host name, and its programs loopback.
pub(super) fn prepare(kernel: &Kernel, root: &ProgramRoot) -> Result<()> {
    let name = host_name(root.tree());
    prepare_kernel(kernel, &name)?;
    let has_hosts = root.tree().symlink_metadata(Path::new(HOSTS)).is_ok();
    if !has_hosts {
        root.show_text(Path::new(HOSTS), hosts(&name).as_bytes())
            .map_err(failed)?;
    }
    let servers = kernel.name_servers();
    if !servers.is_empty() {
        root.show_text(Path::new(RESOLVER), servers.as_bytes())
            .map_err(failed)?;
    }
    Ok(())
}

/// The same for a kernel without a root for programs.
pub(super) fn prepare_alone(kernel: &Kernel) -> Result<()> {
    prepare_kernel(kernel, DEFAULT_NAME)
}

fn prepare_kernel(kernel: &Kernel, name: &str) -> Result<()> {
    // A wrong name is not worth an error.
    let _ = kernel.system().set_host_name(name.as_bytes());
    match kernel.configure_interface("lo", "up") {
        // This kernel has no networks.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        result => result.map_err(failed),
    }
}

/// The text of /etc/hosts.
fn hosts(name: &str) -> String {
    let short = name.split('.').next().unwrap_or(name);
    let names = if short.is_empty() || short == name {
        name.to_owned()
    } else {
        format!("{name} {short}")
    };
    format!("127.0.0.1 localhost\n127.0.1.1 {names}\n::1 localhost ip6-localhost ip6-loopback\n")
}

/// The volume's host name, as hostname(5) has it.
fn host_name(tree: &Tree) -> String {
    let path = Path::new(HOST_NAME_FILE);
    let mut text = Vec::new();
    // Opening a FIFO could wait for ever.
    let is_file = tree.metadata(path).is_ok_and(|found| found.is_file());
    let opened: Option<io::Result<_>> = is_file.then(|| tree.open(path));
    if let Some(Ok(file)) = opened {
        let _ = file.take(LONGEST_HOST_NAME).read_to_end(&mut text);
    }
    name_of(&text)
}

/// The name that a text begins with.
fn name_of(text: &[u8]) -> String {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let name: String = text
        .iter()
        .take_while(is_part)
        .copied()
        .map(char::from)
        .collect();
    if name.is_empty() {
        DEFAULT_NAME.to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_name_resolves() {
        assert_eq!(name_of(b"box.example\nx"), "box.example");
        assert_eq!(name_of(b"\n"), "outboard");
        assert!(hosts("box.example").contains("127.0.1.1 box.example box\n"));
        assert!(hosts("box").contains("127.0.1.1 box\n"));
    }
}
