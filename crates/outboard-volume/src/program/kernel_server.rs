// SPDX-License-Identifier: GPL-2.0-only
//! A server: a kernel without a first program, which connections use.
//!
//! | request | for |
//! |---|---|
//! | `Start`, `Status`, `Processes`, `Client` | all whom the rules allow |
//! | `Run` | the same; who is not root inside runs programs as its own user there |
//! | `Log`, `Halt` | root inside |

use super::answers::failed;
use super::start::ProgramRun;
use crate::peer_rules::PeerRules;
use crate::server_ends::WaitingForEnd;
use outboard::{memory_in_use, release, version};
use outboard_protocol::frames::{Frame, FrameKind, ProgramRequest, Request, RunAnswer};
use outboard_protocol::server::{ProcessKind, ProcessRow, ServerStatus, LONGEST_NAME, MOST_ROWS};
use outboard_server::{ClientPeer, ClientRow, ClientServer, InsideUser};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes of the kernel's log in a frame.
const LOG_PIECE: usize = 64 << 10;

/// A reason for the end of a server.
pub(super) struct EndAsked;

/// The programs at this moment, by the numbers of their processes.
#[derive(Clone, Default)]
struct ProgramTable(Arc<Mutex<BTreeMap<i32, ProcessRow>>>);

/// A program that runs. It leaves the table when this is dropped.
pub(super) struct ListedProgram {
    table: ProgramTable,
    number: i32,
}

/// The server, whose kernel others hold.
pub(super) struct KernelServer {
    pub(super) rules: PeerRules,
    clients: ClientServer,
    began: Instant,
    programs: ProgramTable,
    waiting: WaitingForEnd,
    end: Sender<EndAsked>,
}

impl ProgramTable {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<i32, ProcessRow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ListedProgram {
    fn drop(&mut self) {
        self.table.rows().remove(&self.number);
    }
}

impl KernelServer {
    /// `end` gets the requests to end.
    pub(super) fn new(
        rules: PeerRules,
        clients: ClientServer,
        waiting: WaitingForEnd,
        end: Sender<EndAsked>,
    ) -> Self {
        Self {
            rules,
            clients,
            began: Instant::now(),
            programs: ProgramTable::default(),
            waiting,
            end,
        }
    }

    /// Lists a program that begins.
    pub(super) fn list(
        &self,
        number: i32,
        peer: &ClientPeer,
        name: String,
        user: u32,
    ) -> ListedProgram {
        let row = ProcessRow {
            kind: ProcessKind::Program,
            process: number,
            user,
            host_process: peer.process,
            host_user: peer.user,
            name,
            threads: None,
            calls: None,
        };
        self.programs.rows().insert(number, row);
        ListedProgram {
            table: self.programs.clone(),
            number,
        }
    }

    /// Answers a request that is not about one program.
    pub(super) fn serve(
        &self,
        run: &ProgramRun,
        socket: UnixStream,
        peer: ClientPeer,
        request: Request,
    ) -> io::Result<()> {
        let is_root = peer.inside == InsideUser::ROOT;
        match request {
            Request::Start => Frame::send(&mut &socket, &RunAnswer::Started),
            Request::Client(request) => {
                self.clients.serve(socket, &peer, &request);
                Ok(())
            }
            Request::Status => {
                let status = RunAnswer::Status(self.status(run));
                Frame::send(&mut &socket, &status)
            }
            Request::Processes => self.send_processes(&socket),
            Request::Log | Request::Halt if !is_root => {
                let reason = format!("user {} of the host is not root inside", peer.user);
                Frame::send(&mut &socket, &failed(reason))
            }
            Request::Log => send_log(run, &socket),
            Request::Halt => {
                self.waiting.add(socket);
                // The server may end already.
                let _ = self.end.send(EndAsked);
                Ok(())
            }
            Request::Run(_) | Request::Stop { .. } | Request::Token(_) => {
                Frame::send(&mut &socket, &failed("a server takes no such request"))
            }
        }
    }

    /// Ends all clients, and serves no further one.
    pub(super) fn end_clients(&self) {
        self.clients.end();
    }

    fn client_row(&self, row: ClientRow) -> ProcessRow {
        ProcessRow {
            kind: ProcessKind::Client,
            process: row.process,
            // It may have changed its user since.
            user: self.rules.inside_number(row.user),
            host_process: row.host_process,
            host_user: row.user,
            name: row.name.chars().take(LONGEST_NAME).collect(),
            threads: Some(row.threads as u64),
            calls: Some(row.calls),
        }
    }

    fn status(&self, run: &ProgramRun) -> ServerStatus {
        ServerStatus {
            version: version(),
            kernel: release(),
            host_process: std::process::id(),
            seconds: self.began.elapsed().as_secs(),
            clients: self.clients.clients().len() as u64,
            programs: self.programs.rows().len() as u64,
            memory: memory_in_use(run.kernel.system()).unwrap_or_default(),
        }
    }

    fn send_processes(&self, mut socket: &UnixStream) -> io::Result<()> {
        let mut rows: Vec<ProcessRow> = self.programs.rows().values().cloned().collect();
        rows.extend(
            self.clients
                .clients()
                .into_iter()
                .map(|row| self.client_row(row)),
        );
        for rows in rows.chunks(MOST_ROWS) {
            Frame::send(&mut socket, &RunAnswer::Processes(rows.to_vec()))?;
        }
        Frame::send(&mut socket, &RunAnswer::Ended(0))
    }
}

fn send_log(run: &ProgramRun, mut socket: &UnixStream) -> io::Result<()> {
    let log = match run.kernel.system().kernel_log() {
        Ok(log) => log,
        Err(error) => {
            let reason = format!("cannot read the log of the kernel: {error}");
            return Frame::send(&mut socket, &failed(reason));
        }
    };
    for piece in without_levels(&log).chunks(LOG_PIECE) {
        Frame::write(&mut socket, FrameKind::Output, piece)?;
    }
    Frame::send(&mut socket, &RunAnswer::Ended(0))
}

/// Lines without the number before them, as in "<6>[    0.5] text".
fn without_levels(log: &[u8]) -> Vec<u8> {
    let lines = log.split_inclusive(|&byte| byte == b'\n');
    let text = lines.map(|line| match line.iter().position(|&byte| byte == b'>') {
        Some(end) if line[0] == b'<' && line[1..end].iter().all(u8::is_ascii_digit) => {
            &line[end + 1..]
        }
        _ => line,
    });
    text.collect::<Vec<_>>().concat()
}

/// Gives the program of a peer that is not root inside the peer's user. The error: a reason.
pub(super) fn check_user(peer: &ClientPeer, request: &mut ProgramRequest) -> Result<(), String> {
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
pub(super) fn shown_words(words: &[OsString]) -> String {
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
    fn levels_are_left_out() {
        let log = b"<6>[ 0.5] a<1>\n<x>b\n<12>c\n\nd";
        assert_eq!(without_levels(log), b"[ 0.5] a<1>\n<x>b\nc\n\nd");
    }

    #[test]
    fn long_words_are_cut() {
        let long: Vec<OsString> = vec!["\u{e9}".repeat(100).into()];
        assert_eq!(shown_words(&long).chars().count(), LONGEST_NAME);
        assert_eq!(shown_words(&["a".into(), "b".into()]), "a b");
    }
}
