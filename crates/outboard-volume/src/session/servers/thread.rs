// SPDX-License-Identifier: GPL-2.0-only
//! A thread of a session that makes calls into the session's kernel.

use outboard::{Kernel, KernelError};
use std::io;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long the end of the thread is awaited before a look whether the kernel lives.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Joined when this is dropped: its owner has asked it to end. After a contained panic of the
/// kernel, the thread may stay in a call for ever, and is left behind.
pub(super) struct ServerThread {
    kernel: Kernel,
    /// Disconnected once the thread ends.
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    pub(super) fn start(kernel: &Kernel, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (end, ended) = channel();
        let work = move || {
            work();
            drop(end);
        };
        Ok(Self {
            kernel: kernel.clone(),
            ended,
            thread: Some(Builder::new().spawn(work)?),
        })
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        while self.ended.recv_timeout(LOOK_AGAIN) == Err(RecvTimeoutError::Timeout) {
            if self.kernel.check() == Err(KernelError::Panicked) {
                return;
            }
        }
        // A thread that has panicked has ended, too.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::{DiskOptions, Fd, MountOptions};
    use outboard_test_images::Work;
    use std::io::Read;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn the_end_is_awaited() {
        let kernel = Kernel::builder().boot().unwrap();
        let (end, ended) = channel::<()>();
        let thread = ServerThread::start(&kernel, move || assert!(ended.recv().is_err())).unwrap();
        drop(end);
        drop(thread);
        let panicking = ServerThread::start(&kernel, || panic!("on purpose"));
        drop(panicking.unwrap());
    }

    /// Starts a thread that makes the kernel panic. It stays in its call for ever.
    fn let_panic(kernel: &Kernel) {
        let system = kernel.system().clone();
        std::thread::spawn(move || {
            let trigger = c"/sys/fs/ext4/vda/trigger_fs_error";
            let attribute = Fd::working_directory(&system).open_at(trigger, libc::O_WRONLY, 0);
            attribute.and_then(|attribute| attribute.write(b"test"))
        });
    }

    #[test]
    fn a_thread_in_a_dead_kernel_is_left_behind() {
        let (panicked, panic) = sync_channel(1);
        let builder = Kernel::builder().contain_panic();
        let builder = builder.panic(move |_| _ = panicked.try_send(()));
        let kernel = builder.boot().unwrap();
        let work = Work::new();
        let image = work.empty_ext4("image", 16, &[]);
        let disk = kernel.add_disk(&image, DiskOptions::read_write()).unwrap();
        let device = disk.device(None).unwrap();
        let options = MountOptions::default().options("errors=panic");
        let _mount = device.mount(&options).unwrap();
        let (client, _server) = kernel.net().unix_pair().unwrap();
        let (begin, begun) = channel();
        let reading = ServerThread::start(&kernel, move || {
            begin.send(()).unwrap();
            let _ = (&client).read(&mut [0]);
        });
        begun.recv().unwrap();
        let_panic(&kernel);
        // A call of this thread at that moment would stay there, too.
        panic.recv().unwrap();
        assert_eq!(kernel.check(), Err(KernelError::Panicked));
        drop(reading.unwrap());
    }
}
