// SPDX-License-Identifier: GPL-2.0-only
//! A server: a kernel without a first program, which connections use. Those who are not root inside
//! run programs as their own user there.

use super::control::FurtherPrograms;
use crate::server_ends::WaitingForEnd;
use outboard_error::warn;
use outboard_protocol::frames::{Frame, ProgramRequest};
use outboard_protocol::server::{ProcessKind, ProcessRow, LONGEST_NAME};
use outboard_server::{failed, ClientPeer, InsideUser, ServerPrograms};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two messages about connections that are refused.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// A reason for the end of a server.
pub(super) struct EndAsked;

/// The programs at this moment, by the numbers of their processes.
#[derive(Clone, Default)]
struct ProgramTable(Arc<Mutex<BTreeMap<i32, ProcessRow>>>);

/// A program that runs. It leaves the table when this is dropped.
struct ListedProgram {
    table: ProgramTable,
    number: i32,
}

/// The programs of a server, and its end.
pub(super) struct KernelPrograms {
    further: FurtherPrograms,
    table: ProgramTable,
    waiting: WaitingForEnd,
    end: Sender<EndAsked>,
    reported: Mutex<Option<Instant>>,
}

impl ProgramTable {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<i32, ProcessRow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self, row: ProcessRow) -> ListedProgram {
        let number = row.process;
        self.rows().insert(number, row);
        ListedProgram {
            table: self.clone(),
            number,
        }
    }
}

impl Drop for ListedProgram {
    fn drop(&mut self) {
        self.table.rows().remove(&self.number);
    }
}

impl KernelPrograms {
    /// `end` gets the requests to end.
    pub(super) fn new(
        further: FurtherPrograms,
        waiting: WaitingForEnd,
        end: Sender<EndAsked>,
    ) -> Self {
        Self {
            further,
            table: ProgramTable::default(),
            waiting,
            end,
            reported: Mutex::default(),
        }
    }

    /// Ends the programs.
    pub(super) fn end_all(&self) {
        self.further.children.end_all();
    }
}

impl ServerPrograms for KernelPrograms {
    fn rows(&self) -> Vec<ProcessRow> {
        self.table.rows().values().cloned().collect()
    }

    fn run(
        &self,
        socket: &UnixStream,
        peer: &ClientPeer,
        mut request: ProgramRequest,
    ) -> io::Result<()> {
        if let Err(reason) = check_user(peer, &mut request) {
            return Frame::send(&mut &*socket, &failed(reason));
        }
        let name = shown_words(&request.words);
        self.further.serve(socket, request, |process, user| {
            self.table.list(ProcessRow {
                kind: ProcessKind::Program,
                process,
                user,
                host_process: peer.process,
                host_user: peer.user,
                name,
                threads: None,
                calls: None,
            })
        })
    }

    fn refused(&self, reason: &str) {
        let mut last = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        // Strangers must not fill a log.
        if last.is_none_or(|last| last.elapsed() >= REPORT_INTERVAL) {
            *last = Some(Instant::now());
            warn(format!("refused {reason}"));
        }
    }

    fn halt(&self, socket: UnixStream) -> io::Result<()> {
        self.waiting.add(socket);
        // The server may end already.
        let _ = self.end.send(EndAsked);
        Ok(())
    }
}

/// Gives the program of a peer that is not root inside the peer's user. The error: a reason.
fn check_user(peer: &ClientPeer, request: &mut ProgramRequest) -> Result<(), String> {
    if peer.inside == InsideUser::ROOT {
        return Ok(());
    }
    let own = OsString::from(format!("{}:{}", peer.inside.user, peer.inside.group));
    match request.user.replace(own.clone()) {
        Some(wanted) if wanted != own && wanted != *peer.inside.user.to_string() => Err(format!(
            "user {} of the host runs programs as user {} alone",
            peer.user, peer.inside.user
        )),
        _ => Ok(()),
    }
}

/// The words of a program, for a table.
fn shown_words(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ").chars().take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(inside: u32, user: Option<&str>) -> Result<Option<OsString>, String> {
        let inside = InsideUser {
            user: inside,
            group: inside,
        };
        let peer = ClientPeer {
            process: 1,
            user: 1000,
            inside,
        };
        let mut request = ProgramRequest {
            user: user.map(OsString::from),
            ..ProgramRequest::default()
        };
        check_user(&peer, &mut request).map(|()| request.user)
    }

    #[test]
    fn only_root_chooses_a_user() {
        assert_eq!(asked(0, None), Ok(None));
        assert_eq!(asked(0, Some("7")), Ok(Some("7".into())));
        assert_eq!(asked(7, None), Ok(Some("7:7".into())));
        assert_eq!(asked(7, Some("7")), Ok(Some("7:7".into())));
        assert_eq!(asked(7, Some("7:7")), Ok(Some("7:7".into())));
        for wrong in ["0", "7:0", "root", "07", ""] {
            assert!(asked(7, Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn long_words_are_cut() {
        let long: Vec<OsString> = vec!["\u{e9}".repeat(100).into()];
        assert_eq!(shown_words(&long).chars().count(), LONGEST_NAME);
        assert_eq!(shown_words(&["a".into(), "b".into()]), "a b");
    }
}
