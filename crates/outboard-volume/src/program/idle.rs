// SPDX-License-Identifier: GPL-2.0-only
//! The end of a run that nobody uses.
//!
//! | use of a run | seen by |
//! |---|---|
//! | a command such as `exec` | its connection to the control socket |
//! | a connection to a TCP port that is led to the programs | the kernel's table of connections |
//! | one that was short, between two looks at the table | the kernel's count of accepted ones |
//! | a datagram to a UDP port that is led to the programs | the kernel's count of datagrams |
//!
//! The counts are those of all connections and datagrams that arrive, also from programs inside.

use super::command::IdleExit;
use super::start::ProgramRun;
use outboard::NetworkUse;
use outboard_error::warn;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the program may take for its end, before SIGKILL: as `outboard stop`.
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches the use of a run, and ends its first program.
pub(super) struct IdleWatch {
    run: Arc<ProgramRun>,
    exit: IdleExit,
    /// The group of the first program.
    group: i32,
    looked: Option<Instant>,
    last_use: Instant,
    counts: Option<NetworkUse>,
    end: Option<IdleEnd>,
}

/// The end has begun.
struct IdleEnd {
    began: Instant,
    signal: i32,
    is_killed: bool,
}

impl IdleWatch {
    /// `None`: the run goes on without use. `first`: the first program.
    pub(super) fn new(run: &Arc<ProgramRun>, first: i32) -> Option<Self> {
        let exit = run.command.idle_exit.clone()?;
        Some(Self {
            run: Arc::clone(run),
            exit,
            group: first,
            looked: None,
            last_use: Instant::now(),
            counts: None,
            end: None,
        })
    }

    /// To be called again and again. `has_commands`: other commands use the run at this moment.
    pub(super) fn poll(&mut self, has_commands: bool) {
        let now = Instant::now();
        if let Some(end) = &mut self.end {
            if !end.is_killed && now - end.began > PATIENCE {
                end.is_killed = true;
                self.signal(libc::SIGKILL);
            }
            return;
        }
        let interval = INTERVAL.min(self.exit.time / 4);
        if self.looked.is_some_and(|looked| now - looked < interval) {
            return;
        }
        self.looked = Some(now);
        if self.network_is_used() || has_commands {
            self.last_use = now;
        } else if now - self.last_use >= self.exit.time {
            warn(format!(
                "note: the run ends: nobody has used it for {} s",
                self.exit.time.as_secs()
            ));
            let signal = self.run.command.signal(libc::SIGTERM);
            self.signal(signal);
            self.end = Some(IdleEnd {
                began: now,
                signal,
                is_killed: false,
            });
        }
    }

    fn signal(&self, signal: i32) {
        // It may have ended.
        let _ = self.run.kernel.system().send_signal(-self.group, signal);
    }

    fn network_is_used(&mut self) -> bool {
        if self.exit.ports.is_empty() && !self.exit.has_udp {
            return false;
        }
        // Without an answer, nobody knows: the run goes on.
        let Ok(found) = NetworkUse::read(&self.run.kernel, &self.exit.ports) else {
            return true;
        };
        let before = self.counts.replace(found);
        found.connections > 0
            || before.is_none_or(|before| {
                before.accepted != found.accepted
                    || (self.exit.has_udp && before.datagrams != found.datagrams)
            })
    }

    /// The status of the run, of whose first program this is the status: success if it has ended
    /// as it was asked to.
    pub(super) fn shown(&self, status: ExitStatus) -> ExitStatus {
        let as_asked = |end: &IdleEnd| {
            status.signal() == Some(end.signal) || status.code() == Some(128 + end.signal)
        };
        if self.end.as_ref().is_some_and(as_asked) {
            ExitStatus::default()
        } else {
            status
        }
    }
}
