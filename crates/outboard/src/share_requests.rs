// SPDX-License-Identifier: GPL-2.0-only
//! The requests of the kernel's SMB client to all of its servers.

use crate::kernel::Kernel;
use crate::kernel_files::read_text;
use std::io;

/// The file in which the client shows its connections and requests.
const STATE: &std::ffi::CStr = c"/proc/fs/cifs/DebugData";
/// The status of a connection that works.
const GOOD: &str = "1";

/// The things that the client waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareState {
    /// Whether all servers are connected.
    pub is_connected: bool,
    /// The number of the oldest request without an answer.
    pub oldest: Option<u64>,
}

impl Kernel {
    /// The state of the SMB client. NotFound: the kernel has none.
    pub fn share_state(&self) -> io::Result<ShareState> {
        read_text(self.system(), STATE).map(|text| state_of(&text))
    }
}

fn state_of(text: &str) -> ShareState {
    let lines = || text.lines().map(str::trim);
    let mut connections = lines().filter_map(|line| line.strip_prefix("TCP status: "));
    let requests = lines().filter(|line| line.starts_with("State: "));
    let numbers = requests.filter_map(|line| line.rsplit_once(" mid ")?.1.parse().ok());
    ShareState {
        is_connected: connections.all(|status| status.split(' ').next() == Some(GOOD)),
        oldest: numbers.min(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_request_is_found() {
        let text = "Servers:\n1) ConnectionId: 0x1 Hostname: h\nTCP status: 1 Instance: 1\n\n\
            \tMIDs: \n\tServer ConnectionId: 0x1\n\
            \t\tState: 2 com: 8 pid: 1 cbdata: 00000000 mid 77\n\
            \t\tState: 2 com: 8 pid: 1 cbdata: 00000000 mid 9\n--\n";
        let state = state_of(text);
        assert_eq!((state.is_connected, state.oldest), (true, Some(9)));
        let lost = state_of(&text.replace("status: 1", "status: 3"));
        assert!(!lost.is_connected);
        assert_eq!(state_of("").oldest, None);
    }
}
