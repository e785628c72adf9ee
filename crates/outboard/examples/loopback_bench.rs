// SPDX-License-Identifier: GPL-2.0-only
//! Compares TCP over the loopback interface of a kernel in this process with that of the host:
//! round trips of one byte, and bytes in one direction. Prints medians of several rounds by turns.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
const TRIPS: usize = 20_000;
const BULK: usize = 1 << 30;
const PIECE: usize = 128 << 10;

/// Median of the times of round trips, and bytes a second.
struct Figures {
    trip: Duration,
    bulk: f64,
}

fn echo(mut stream: impl Read + Write) -> io::Result<()> {
    let mut byte = [0];
    for _ in 0..TRIPS {
        stream.read_exact(&mut byte)?;
        stream.write_all(&byte)?;
    }
    let mut buffer = vec![0; PIECE];
    let mut left = BULK;
    while left > 0 {
        let size = left.min(PIECE);
        left -= stream.read(&mut buffer[..size])?;
    }
    stream.write_all(&byte)
}

fn measure(mut client: impl Read + Write, server: impl Read + Write + Send) -> io::Result<Figures> {
    thread::scope(|scope| {
        let server = scope.spawn(|| echo(server));
        let mut byte = [0];
        let mut times = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let start = Instant::now();
            client.write_all(&byte)?;
            client.read_exact(&mut byte)?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let buffer = vec![0; PIECE];
        let start = Instant::now();
        for _ in 0..BULK / PIECE {
            client.write_all(&buffer)?;
        }
        client.read_exact(&mut byte)?;
        let bulk = BULK as f64 / start.elapsed().as_secs_f64();
        server.join().expect("no panic")?;
        Ok(Figures {
            trip: times[TRIPS / 2],
            bulk,
        })
    })
}

fn ours(net: &outboard::net::Net) -> io::Result<Figures> {
    let listener = net.tcp_listen("127.0.0.1:0")?;
    let client = net.tcp_connect(listener.local_addr()?)?;
    client.set_nodelay(true)?;
    let server = listener.accept()?.0;
    server.set_nodelay(true)?;
    measure(client, server)
}

fn hosts() -> io::Result<Figures> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let client = std::net::TcpStream::connect(listener.local_addr()?)?;
    client.set_nodelay(true)?;
    let server = listener.accept()?.0;
    server.set_nodelay(true)?;
    measure(client, server)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn print(name: &str, figures: &[Figures]) {
    let trip = median(figures.iter().map(|f| f.trip.as_secs_f64() * 1e6).collect());
    let bulk = median(figures.iter().map(|f| f.bulk / 1e6).collect());
    println!("{name:17} {trip:14.2} {bulk:12.0}");
}

fn network(vcpus: u32) -> io::Result<outboard::net::Net> {
    let net = outboard::Kernel::builder().vcpus(vcpus).boot()?.net();
    net.set_up("lo")?;
    Ok(net)
}

fn main() -> io::Result<()> {
    let nets = [network(1)?, network(2)?];
    let mut figures = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        figures[0].push(ours(&nets[0])?);
        figures[1].push(ours(&nets[1])?);
        figures[2].push(hosts()?);
    }
    println!("loopback          round trip, us   bulk, MB/s");
    for (name, figures) in ["outboard, 1 vCPU", "outboard, 2 vCPUs", "host"]
        .iter()
        .zip(&figures)
    {
        print(name, figures);
    }
    Ok(())
}
