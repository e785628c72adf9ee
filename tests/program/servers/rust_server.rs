// SPDX-License-Identifier: GPL-2.0-only
//! An HTTP server for tests, by the standard library alone: a thread for each connection. /sum?n=N
//! answers with a sum over N kilobytes that it makes for each request. /end ends it once all
//! connections have ended: the standard library has no signals.

use std::io::{BufRead, BufReader, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{mpsc, Arc};
use std::thread;

const KILOBYTE: usize = 1024;

/// The sum of FNV-1a, whose pieces come from another thread.
fn sum(count: usize) -> u64 {
    let (sender, pieces) = mpsc::sync_channel(4);
    let make = move || {
        for i in 0..count {
            let piece: Vec<u8> = (0..KILOBYTE).map(|j| (i + j) as u8).collect();
            sender.send(piece).expect("the sum is not made");
        }
    };
    let maker = thread::spawn(make);
    let add = |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let sum = pieces.iter().flatten().fold(0xcbf2_9ce4_8422_2325, add);
    maker.join().expect("the maker of bytes has failed");
    sum
}

/// Serves the requests of one connection.
fn serve(stream: TcpStream, requests: &AtomicU64, ends: &AtomicBool) -> Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let mut stream = stream;
    while let Some(first) = lines.next().transpose()? {
        while lines
            .next()
            .transpose()?
            .is_some_and(|line| !line.is_empty())
        {}
        let path = first.split(' ').nth(1).unwrap_or_default();
        let count = path.strip_prefix("/sum?n=").and_then(|n| n.parse().ok());
        if path == "/end" {
            ends.store(true, SeqCst);
        }
        let text = count.map_or_else(String::new, |count| format!("{:016x}", sum(count)));
        let status = if text.is_empty() {
            "404 Not Found"
        } else {
            "200 OK"
        };
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )?;
        requests.fetch_add(1, SeqCst);
    }
    Ok(())
}

fn main() -> Result<()> {
    let listener = TcpListener::bind("0.0.0.0:80")?;
    let (requests, ends) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let mut threads = Vec::new();
    while !ends.load(SeqCst) {
        let (stream, _) = listener.accept()?;
        let (requests, ends) = (Arc::clone(&requests), Arc::clone(&ends));
        threads.push(thread::spawn(move || serve(stream, &requests, &ends)));
    }
    for thread in threads {
        thread.join().expect("a thread has failed")?;
    }
    println!("requests {}", requests.load(SeqCst));
    Ok(())
}
