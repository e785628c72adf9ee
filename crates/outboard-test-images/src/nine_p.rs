// SPDX-License-Identifier: GPL-2.0-only
//! A server of 9P2000.L with one directory and one file in it, which can stop to answer.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

/// Name and size of the file, whose bytes are zeroes.
pub const FILE: &str = "f";
pub const SIZE: u64 = 64 << 20;

const ENOENT: u32 = 2;
const ENODATA: u32 = 61;
const EOPNOTSUPP: u32 = 95;
/// The type of an answer that is an error.
const RLERROR: u8 = 7;

/// The type of a request for bytes of a file.
const READ: u8 = 116;

/// The server. Several threads may look at it.
#[derive(Debug, Default)]
pub struct NinePServer {
    is_silent: AtomicBool,
    ignores_reads: AtomicBool,
    ignored: AtomicU64,
}

/// The body of a message, from its front.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    /// Zero at the end: a flush has but a tag.
    fn number(&mut self, size: usize) -> u64 {
        let (first, rest) = self.0.split_at(size.min(self.0.len()));
        self.0 = rest;
        let shifted = |sum, &byte: &u8| sum << 8 | u64::from(byte);
        first.iter().rev().fold(0, shifted)
    }

    fn text(&mut self) -> &[u8] {
        let length = self.number(2) as usize;
        let (first, rest) = self.0.split_at(length);
        self.0 = rest;
        first
    }
}

fn id(is_file: bool) -> Vec<u8> {
    let mut bytes = vec![if is_file { 0 } else { 0x80 }, 0, 0, 0, 0];
    bytes.extend(u64::from(is_file).to_le_bytes());
    bytes
}

fn attributes(is_file: bool) -> Vec<u8> {
    let mode: u32 = if is_file { 0o100_644 } else { 0o040_755 };
    let mut bytes = 0x7ff_u64.to_le_bytes().to_vec();
    bytes.extend(id(is_file));
    bytes.extend([mode, 0, 0].map(u32::to_le_bytes).concat());
    bytes.extend(
        [1, 0, SIZE, 4096, SIZE / 512]
            .map(u64::to_le_bytes)
            .concat(),
    );
    bytes.extend([0; 10 * 8]);
    bytes
}

impl NinePServer {
    /// Answers nothing any more.
    pub fn fall_silent(&self) {
        self.is_silent.store(true, SeqCst);
    }

    /// How many requests were ignored.
    pub fn ignored(&self) -> u64 {
        self.ignored.load(SeqCst)
    }

    /// Serves a client until the connection ends.
    pub fn serve(&self, mut stream: impl Read + Write) -> io::Result<()> {
        let mut files = HashSet::new();
        loop {
            let mut header = [0; 7];
            stream.read_exact(&mut header)?;
            let mut fields = Body(&header);
            let (size, kind, tag) = (fields.number(4), fields.number(1) as u8, fields.number(2));
            let mut body = vec![0; size as usize - header.len()];
            stream.read_exact(&mut body)?;
            let is_ignored = kind == READ && self.ignores_reads.load(SeqCst);
            if is_ignored || self.is_silent.load(SeqCst) {
                self.ignored.fetch_add(1, SeqCst);
                continue;
            }
            let (kind, answer) = match answer(kind, Body(&body), &mut files) {
                Ok(answer) => (kind + 1, answer),
                Err(number) => (RLERROR, number.to_le_bytes().to_vec()),
            };
            let mut message = ((header.len() + answer.len()) as u32)
                .to_le_bytes()
                .to_vec();
            message.push(kind);
            message.extend((tag as u16).to_le_bytes());
            message.extend(answer);
            stream.write_all(&message)?;
        }
    }
}

/// A server at a port of this machine, for any number of clients, until the process ends.
pub struct NinePShare {
    server: Arc<NinePServer>,
    clients: Arc<Mutex<Vec<TcpStream>>>,
    port: u16,
}

impl Default for NinePShare {
    fn default() -> Self {
        Self::new()
    }
}

impl NinePShare {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let share = Self {
            server: Arc::default(),
            clients: Arc::default(),
            port: listener.local_addr().unwrap().port(),
        };
        let (server, clients) = (Arc::clone(&share.server), Arc::clone(&share.clients));
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                clients.lock().unwrap().push(client.try_clone().unwrap());
                let server = Arc::clone(&server);
                thread::spawn(move || server.serve(&client));
            }
        });
        share
    }

    /// Its name for Outboard.
    pub fn name(&self) -> String {
        format!("9p://127.0.0.1:{}/", self.port)
    }

    /// Answers nothing any more.
    pub fn fall_silent(&self) {
        self.server.fall_silent();
    }

    /// Answers no reads any more, but all else: also a request that ends a read.
    pub fn ignore_reads(&self) {
        self.server.ignores_reads.store(true, SeqCst);
    }

    /// Answers new requests again.
    pub fn answer(&self) {
        self.server.is_silent.store(false, SeqCst);
    }

    /// Ends all connections.
    pub fn end(&self) {
        for client in self.clients.lock().unwrap().drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}

/// `files`: the client's numbers that mean the file. All others mean the directory.
fn answer(kind: u8, mut body: Body, files: &mut HashSet<u64>) -> Result<Vec<u8>, u32> {
    let first = body.number(4);
    let is_file = files.contains(&first);
    Ok(match kind {
        // version: the client's own size of messages.
        100 => [&(first as u32).to_le_bytes()[..], &[8, 0], b"9P2000.L"].concat(),
        // attach
        104 => id(false),
        // walk
        110 => {
            let (new, count) = (body.number(4), body.number(2));
            if count > 1 || count == 1 && body.text() != FILE.as_bytes() {
                return Err(ENOENT);
            }
            files.remove(&new);
            if count == 1 || is_file {
                files.insert(new);
            }
            let ids = id(true).repeat(count as usize);
            [(count as u16).to_le_bytes().to_vec(), ids].concat()
        }
        // statfs
        8 => [0; 4 + 4 + 6 * 8 + 4].to_vec(),
        // getattr
        24 => attributes(is_file),
        // lopen
        12 => [id(is_file), vec![0; 4]].concat(),
        // lcreate
        14 => {
            files.insert(first);
            [id(true), vec![0; 4]].concat()
        }
        READ => {
            let (offset, count) = (body.number(8), body.number(4));
            let count = count.min(SIZE.saturating_sub(offset));
            let bytes = vec![0; count as usize];
            [(count as u32).to_le_bytes().to_vec(), bytes].concat()
        }
        // write
        118 => {
            body.number(8);
            (body.number(4) as u32).to_le_bytes().to_vec()
        }
        // readdir: no names.
        40 => vec![0; 4],
        // xattrwalk
        30 => return Err(ENODATA),
        // flush, clunk, setattr, fsync, renameat, unlinkat
        108 | 120 | 26 | 50 | 74 | 76 => Vec::new(),
        _ => return Err(EOPNOTSUPP),
    })
}
