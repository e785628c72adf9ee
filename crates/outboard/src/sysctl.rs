// SPDX-License-Identifier: GPL-2.0-only
//! Settings of a running kernel: the files of /proc/sys.

use crate::kernel_files::{read_text, write_text};
use crate::net::Net;
use crate::{Kernel, System};
use outboard_sys::{errno, explained};
use std::ffi::CString;
use std::io;

/// The file of a setting. As with sysctl(8), dots separate the parts, and a slash stands for a dot
/// inside one; if a slash comes first, the other way round.
fn path(name: &str) -> io::Result<String> {
    let first = name
        .chars()
        .find(|&character| matches!(character, '.' | '/'));
    let path: String = match first {
        Some('.') => name
            .chars()
            .map(|character| match character {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    };
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    if !path.split('/').all(is_part) {
        let text = format!("{name:?} is no setting: write it as in net.ipv4.ip_forward");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(format!("/proc/sys/{path}"))
}

fn described(error: io::Error, what: &str, name: &str) -> io::Error {
    let text = format!("cannot {what} the setting {name}: {error}");
    match errno(&error) {
        Some(_) => explained(error, text),
        None => error,
    }
}

fn read(system: &System, name: &str) -> io::Result<String> {
    let read = || read_text(system, &CString::new(path(name)?)?);
    let text = read().map_err(|error| described(error, "read", name))?;
    Ok(text.trim_end_matches('\n').to_owned())
}

fn write(system: &System, name: &str, value: &str) -> io::Result<()> {
    let write = || write_text(system, &path(name)?, value);
    write().map_err(|error| described(error, &format!("write {value:?} to"), name))
}

impl Kernel {
    /// The value of a setting, as in `sysctl("kernel.hostname")`. Settings of the network: of the
    /// calling thread's network namespace.
    pub fn sysctl(&self, name: &str) -> io::Result<String> {
        read(self.system(), name)
    }

    /// Changes a setting.
    pub fn set_sysctl(&self, name: &str, value: &str) -> io::Result<()> {
        write(self.system(), name, value)
    }
}

impl Net {
    /// The value of a setting of this network namespace, as in `sysctl("net.ipv4.ip_forward")`.
    pub fn sysctl(&self, name: &str) -> io::Result<String> {
        self.run(|| self.kernel().sysctl(name))?
    }

    /// Changes a setting of this network namespace.
    pub fn set_sysctl(&self, name: &str, value: &str) -> io::Result<()> {
        self.run(|| self.kernel().set_sysctl(name, value))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_sysctl() {
        let good = |name: &str| path(name).unwrap();
        let forward = "/proc/sys/net/ipv4/ip_forward";
        assert_eq!(good("net.ipv4.ip_forward"), forward);
        assert_eq!(good("net/ipv4/ip_forward"), forward);
        let vlan = "/proc/sys/net/ipv4/conf/eth0.7/mtu";
        assert_eq!(good("net.ipv4.conf.eth0/7.mtu"), vlan);
        assert_eq!(good("net/ipv4/conf/eth0.7/mtu"), vlan);
        for bad in ["", ".", "a..b", "../x", "a/../b", "/etc", "a/"] {
            let error = path(bad).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad}");
        }
    }
}
