// SPDX-License-Identifier: GPL-2.0-only
//! Answers that wait until the host has dropped pages from its cache.
//!
//! The host drops pages before the notification call returns. In that time it writes dirty pages
//! and waits for readahead, so other threads must go on answering requests. Hence a separate thread
//! drops the pages, and sends the answers that depend on that:
//!
//! - Looking for data and holes: the host keeps dirty pages and asks the server without writing
//!   them first. A file just written would look like one hole, and a program that copies only data
//!   would copy nothing. A file that no program has open for writing has no dirty pages.
//! - Direct writes: the host drops pages of the range before it sends the write. It drops them
//!   afterwards too, but not for asynchronous writes. Readers fill the page cache in between, and
//!   their pages would show the old data for good. The write is answered when they are gone.

use std::io;
use std::sync::mpsc::{channel, Sender};
use std::sync::Mutex;
use std::thread;

type Answer = Box<dyn FnOnce() + Send>;

pub struct Deferred {
    answers: Mutex<Sender<Answer>>,
}

impl Deferred {
    /// Starts the thread. The thread ends when this is dropped.
    pub fn start() -> io::Result<Self> {
        let (sender, answers) = channel::<Answer>();
        thread::Builder::new().spawn(move || {
            for answer in answers {
                answer();
            }
        })?;
        Ok(Self {
            answers: Mutex::new(sender),
        })
    }

    /// Runs `answer` on the thread, after all answers before it.
    pub fn take(&self, answer: impl FnOnce() + Send + 'static) {
        let answers = self.answers.lock().expect("no thread panics");
        // Without the thread, no program waits for an answer any more.
        let _ = answers.send(Box::new(answer));
    }
}
