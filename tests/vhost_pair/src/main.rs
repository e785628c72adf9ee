// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
//! `vhost-pair A B FEATURES`: a cable between two vhost-user front-ends. It listens on the sockets
//! A and B. Frames that one front-end sends reach the other one as they are, with the header of
//! offloads. FEATURES, in hexadecimal, are those that the back-end offers for frames. When a
//! front-end has gone, the bytes of the largest frame from it are printed.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost::vhost_user::Listener;
use vhost_user_backend::{VhostUserBackendMut, VhostUserDaemon, VringRwLock, VringT};
use virtio_queue::{QueueT, Reader, Writer};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{
    new_event_consumer_and_notifier, EventConsumer, EventFlag, EventNotifier,
};
use vmm_sys_util::eventfd::EventFd;

type Memory = GuestMemoryAtomic<GuestMemoryMmap>;

const RECEIVE: u16 = 0;
const SEND: u16 = 1;
/// The event of frames that have come from the other end. The crate itself has one for its exit.
const ARRIVED: u16 = 3;

const VERSION_1: u64 = 1 << 32;
const EVENT_IDX: u64 = 1 << 29;
const INDIRECT: u64 = 1 << 28;
const MERGED_BUFFERS: u64 = 1 << 15;

/// Where the header of a frame has its number of buffers.
const BUFFERS_AT: usize = 10;
/// A network drops frames, too.
const FRAMES_MOST: usize = 1024;

/// Frames on their way to one end.
struct Inbox {
    frames: Mutex<VecDeque<Vec<u8>>>,
    largest: AtomicUsize,
    event: EventFd,
}

struct End {
    memory: Option<Memory>,
    features: u64,
    inbox: Arc<Inbox>,
    outbox: Arc<Inbox>,
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

impl End {
    /// Takes all frames that the front-end sends.
    fn take(&self, vring: &VringRwLock) -> io::Result<()> {
        let memory = self.memory.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let memory = memory.memory();
        let mut state = vring.get_mut();
        loop {
            state.disable_notification().map_err(failed)?;
            while let Some(chain) = state.get_queue_mut().pop_descriptor_chain(memory.clone()) {
                let head = chain.head_index();
                let mut frame = Vec::new();
                Reader::new(&*memory, chain)
                    .map_err(failed)?
                    .read_to_end(&mut frame)?;
                self.outbox
                    .largest
                    .fetch_max(frame.len(), Ordering::Relaxed);
                let mut frames = self.outbox.frames.lock().expect("no thread panics");
                if frames.len() < FRAMES_MOST {
                    frames.push_back(frame);
                }
                drop(frames);
                state.add_used(head, 0).map_err(failed)?;
            }
            if !state.enable_notification().map_err(failed)? {
                break;
            }
        }
        if state.needs_notification().map_err(failed)? {
            state.signal_used_queue()?;
        }
        self.outbox.event.write(1)
    }

    /// Hands over frames as long as there is room.
    fn deliver(&self, vring: &VringRwLock) -> io::Result<()> {
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let memory = memory.memory();
        let mut state = vring.get_mut();
        let mut frames = self.inbox.frames.lock().expect("no thread panics");
        if !state.get_queue().ready() {
            return Ok(());
        }
        while let Some(mut frame) = frames.pop_front() {
            let before = state.get_queue().next_avail();
            let (mut chains, mut room) = (Vec::new(), 0);
            while room < frame.len() {
                let Some(chain) = state.get_queue_mut().pop_descriptor_chain(memory.clone()) else {
                    break;
                };
                let head = chain.head_index();
                let writer = Writer::new(&*memory, chain).map_err(failed)?;
                room += writer.available_bytes();
                chains.push((head, writer));
            }
            if room < frame.len() {
                drop(chains);
                state.get_queue_mut().set_next_avail(before);
                frames.push_front(frame);
                // The front-end notifies of the next buffer.
                if state.enable_notification().map_err(failed)? {
                    continue;
                }
                break;
            }
            let count = u16::try_from(chains.len()).map_err(failed)?;
            frame[BUFFERS_AT..BUFFERS_AT + 2].copy_from_slice(&count.to_le_bytes());
            let mut rest = frame.as_slice();
            for (head, mut writer) in chains {
                let part = rest.len().min(writer.available_bytes());
                writer.write_all(&rest[..part])?;
                rest = &rest[part..];
                state
                    .add_used(head, u32::try_from(part).map_err(failed)?)
                    .map_err(failed)?;
            }
        }
        if state.needs_notification().map_err(failed)? {
            state.signal_used_queue()?;
        }
        Ok(())
    }
}

impl VhostUserBackendMut for End {
    type Bitmap = ();
    type Vring = VringRwLock;

    fn num_queues(&self) -> usize {
        2
    }

    fn max_queue_size(&self) -> usize {
        1024
    }

    fn features(&self) -> u64 {
        VERSION_1
            | EVENT_IDX
            | INDIRECT
            | MERGED_BUFFERS
            | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
            | self.features
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::REPLY_ACK | VhostUserProtocolFeatures::MQ
    }

    fn set_event_idx(&mut self, _enabled: bool) {}

    fn update_memory(&mut self, memory: Memory) -> io::Result<()> {
        self.memory = Some(memory);
        Ok(())
    }

    fn handle_event(
        &mut self,
        event: u16,
        _events: EventSet,
        vrings: &[VringRwLock],
        _thread: usize,
    ) -> io::Result<()> {
        match event {
            SEND => self.take(&vrings[usize::from(SEND)]),
            _ => {
                if event == ARRIVED {
                    self.inbox.event.read()?;
                }
                self.deliver(&vrings[usize::from(RECEIVE)])
            }
        }
    }

    fn exit_event(&self, _thread: usize) -> Option<(EventConsumer, EventNotifier)> {
        new_event_consumer_and_notifier(EventFlag::NONBLOCK).ok()
    }
}

/// Serves one front-end after another.
fn serve(path: &str, features: u64, inbox: &Arc<Inbox>, outbox: &Arc<Inbox>) -> io::Result<()> {
    let mut listener = Listener::new(path, true).map_err(failed)?;
    loop {
        let end = End {
            memory: None,
            features,
            inbox: Arc::clone(inbox),
            outbox: Arc::clone(outbox),
        };
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let mut daemon =
            VhostUserDaemon::new("vhost-pair".to_owned(), Arc::new(Mutex::new(end)), memory)
                .map_err(failed)?;
        let handler = daemon.get_epoll_handlers().remove(0);
        handler.register_listener(
            std::os::fd::AsRawFd::as_raw_fd(&inbox.event),
            EventSet::IN,
            u64::from(ARRIVED),
        )?;
        daemon.start(&mut listener).map_err(failed)?;
        // A front-end that goes away is no error.
        let _ = daemon.wait();
        handler.send_exit_event();
        println!(
            "largest {} {path}",
            outbox.largest.swap(0, Ordering::Relaxed)
        );
    }
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [a, b, features] = words.as_slice() else {
        return Err(failed("usage: vhost-pair A B FEATURES"));
    };
    let features = u64::from_str_radix(features, 16).map_err(failed)?;
    let inbox = || -> io::Result<Arc<Inbox>> {
        Ok(Arc::new(Inbox {
            frames: Mutex::default(),
            largest: AtomicUsize::new(0),
            event: EventFd::new(0x800)?,
        }))
    };
    let (to_a, to_b) = (inbox()?, inbox()?);
    thread::scope(|scope| {
        let first = scope.spawn(|| serve(a, features, &to_a, &to_b));
        serve(b, features, &to_b, &to_a)?;
        first.join().expect("no thread panics")
    })
}
