// SPDX-License-Identifier: GPL-2.0-only
//! Reports about servers that have not answered in time.

use super::watch::late;
use crate::containers::Content;
use crate::session::whole::Session;
use outboard::Level;
use outboard_error::report;
use outboard_sandbox::interrupt::Interrupt;

/// The kernel's message (drivers/block/nbd.c) about a request that was not answered in time, behind
/// the disk's name.
const NBD_LATE: &str = ": Connection timed out";

impl Session {
    /// Reports servers that have not answered in time: the errors of files only say that reading or
    /// writing failed.
    pub(in crate::session) fn report_silent_servers(&self) {
        // After a signal, a server has less time.
        let is_stopped = Interrupt::if_polled().asked();
        let Some(network) = self.host.network().filter(|_| !is_stopped) else {
            return;
        };
        let lines = self
            .machine
            .log()
            .since(self.machine.booted(), Level::Notice);
        let mounts = self.slots.mounts().filter(|mounted| {
            let mut server = mounted.server.iter();
            server.any(|server| server.was_late(&lines))
        });
        let disks = self.slots.disks().filter(|open| {
            let message = format!("{}{}", open.disk.name(), NBD_LATE);
            matches!(&*open.image.content, Content::Device(_))
                && lines.iter().any(|line| line.contains(&message))
        });
        let names = mounts.map(|mounted| mounted.name.clone());
        for name in names.chain(disks.map(|open| open.image.shown().to_owned())) {
            report(late(&name, network.limit()));
        }
    }
}
