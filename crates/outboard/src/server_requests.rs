// SPDX-License-Identifier: GPL-2.0-only
//! The requests of the kernel's clients to the server of a mount. Version 4 of NFS has no time
//! limit for an answer while a connection exists.

use crate::kernel_files::{read_text, write_text};
use crate::mount_table::device_at;
use crate::{Fd, System};
use outboard_sys::{libc, Deadline};
use std::ffi::CString;
use std::io;
use std::time::Duration;

/// The file in which the kernel counts requests.
const COUNTS: &std::ffi::CStr = c"/proc/self/mountstats";
/// Places of the numbers of sent and answered messages, behind the name of the transport.
const SENT: usize = 5;
const ANSWERED: usize = 6;

/// How many messages went to a server, and how many answers came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Messages, those that were repeated too.
    pub sent: u64,
    /// Answers.
    pub answered: u64,
}

/// The requests of one mount, which may have ended.
#[derive(Clone, Debug)]
pub struct ServerRequests {
    system: System,
    directory: CString,
    is_share: bool,
}

impl ServerRequests {
    /// `driver`: of the mount.
    pub(crate) fn new(system: System, directory: CString, driver: &str) -> Self {
        Self {
            system,
            directory,
            is_share: driver == "cifs",
        }
    }

    /// Those of a mount that has ended.
    #[doc(hidden)]
    pub fn of_nothing(kernel: &crate::Kernel) -> Self {
        Self::new(kernel.system().clone(), c"/".to_owned(), "nfs")
    }

    /// `None`: the file system is not mounted any more, or its driver does not count.
    pub fn counts(&self) -> io::Result<Option<RequestCounts>> {
        let text = read_text(&self.system, COUNTS)?;
        Ok(counts_of(&text, &self.directory.to_string_lossy()))
    }

    /// Ends all requests that have no answer: their callers get an error. Later requests are sent.
    pub fn abort(&self) {
        // Its files are open, so the mount stays: only the requests end.
        let _ = self.system.unmount(&self.directory, libc::MNT_FORCE);
    }

    /// Asks the server for something. An error: it has not answered in this time, or cannot.
    pub fn ask(&self, limit: Duration) -> io::Result<()> {
        let ask = || self.root()?.statfs().map(drop);
        Deadline::after(limit).run_request(ask)
    }

    fn root(&self) -> io::Result<Fd> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        Fd::working_directory(&self.system).open_at(&self.directory, flags, 0)
    }

    /// Gives the server up. With NFS, all requests end with EIO, now and later, also those of the
    /// client itself, which recover its state. With SMB, later calls fail with EIO; the client ends
    /// the requests under way when it cannot connect again.
    pub fn shut_down(&self) -> io::Result<()> {
        if self.is_share {
            return self.root()?.shut_down_file_system();
        }
        let device = device_at(&self.system, &self.directory.to_string_lossy())?;
        let device = device.ok_or(io::ErrorKind::NotFound)?;
        write_text(&self.system, &format!("/sys/fs/nfs/{device}/shutdown"), "1")
    }
}

/// The counts in the text of mountstats for the mount at a directory.
fn counts_of(text: &str, directory: &str) -> Option<RequestCounts> {
    let place = format!(" mounted on {directory} with ");
    let mut lines = text.lines().skip_while(|line| !line.contains(&place));
    lines.next()?;
    let own = lines.take_while(|line| !line.starts_with("device "));
    let transports = own.filter_map(|line| line.trim_start().strip_prefix("xprt:"));
    let mut counts = None;
    for transport in transports {
        let numbers: Vec<u64> = transport
            .split_whitespace()
            .skip(1)
            .map_while(|word| word.parse().ok())
            .collect();
        let total: &mut RequestCounts = counts.get_or_insert_default();
        total.sent += numbers.get(SENT)?;
        total.answered += numbers.get(ANSWERED)?;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "device rootfs mounted on / with fstype rootfs
device 10.0.2.2:/e mounted on /mnt/1 with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2
\txprt:\ttcp 867 1 1 0 0 22 20 0 20 0 2 0 0
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
device 10.0.2.2:/f mounted on /mnt/12 with fstype nfs4 statvers=1.1
\txprt:\ttcp 867 1 1 0 0 5 5 0 20 0 2 0 0
\txprt:\ttcp 868 1 1 0 0 7 6 0 20 0 2 0 0
";

    #[test]
    fn each_mount_has_counts_of_its_own() {
        let counts = |directory| counts_of(TEXT, directory);
        let of = |sent, answered| Some(RequestCounts { sent, answered });
        assert_eq!(counts("/mnt/1"), of(22, 20));
        assert_eq!(counts("/mnt/12"), of(12, 11));
        assert_eq!(counts("/"), None);
        assert_eq!(counts("/mnt"), None);
    }
}
