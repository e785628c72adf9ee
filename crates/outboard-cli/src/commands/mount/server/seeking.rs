// SPDX-License-Identifier: GPL-2.0-only
//! Looking for data and holes in files that are being written.
//!
//! The host holds back what programs write, and asks where data are without handing it over: to the kernel here a file
//! that was just written is one hole, and a program that copies only data would copy nothing. So the host is told first
//! to forget what it remembers of the file, before which it writes. It does that before the telling returns, and then some thread
//! must answer its requests: this has a thread of its own. A file that nobody has open for writing has nothing held back.

use super::{errno, Gate};
use fuser::{INodeNo, ReplyLseek};
use std::io;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request that waits for its answer.
pub struct Seek {
    pub id: INodeNo,
    pub file: u64,
    pub offset: i64,
    pub whence: i32,
    pub reply: ReplyLseek,
}

impl Seek {
    pub fn answer(self, gate: &Gate) {
        let result = gate.run(|volume| volume.seek(self.file, self.offset, self.whence));
        let reply = self.reply;
        answer!(reply, result, position => reply.offset(position as i64));
    }
}

pub struct Seeker {
    seeks: Mutex<Sender<Seek>>,
}

impl Seeker {
    /// Its thread ends with it.
    pub fn start(gate: Arc<Gate>) -> io::Result<Self> {
        let (sender, seeks) = channel::<Seek>();
        thread::Builder::new().spawn(move || {
            for seek in seeks {
                gate.write_back(seek.id);
                seek.answer(&gate);
            }
        })?;
        Ok(Self {
            seeks: Mutex::new(sender),
        })
    }

    /// Answers when everything was written.
    pub fn take(&self, seek: Seek) {
        let seeks = self.seeks.lock().expect("no thread panics");
        // Nobody waits for an answer any more when the thread is gone.
        let _ = seeks.send(seek);
    }
}
