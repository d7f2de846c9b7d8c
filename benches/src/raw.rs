//! The least that any protocol over TCP could do: requests of one size, answers of one size, no header read.
//!
//! The answering thread takes what is there and answers all of it with one write, which is the most that batching can give.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::round::{READ, Rate};

/// Sizes on the wire, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Of a request.
    pub request: usize,
    /// Of an answer.
    pub answer: usize,
}

/// A connection to a thread that answers.
pub struct RawLoop {
    stream: TcpStream,
    sizes: Sizes,
    server: Option<JoinHandle<()>>,
    buf: Vec<u8>,
}

impl RawLoop {
    /// Starts the thread and connects to it.
    pub fn start(sizes: Sizes) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        stream.set_nodelay(true)?;
        let (peer, _) = listener.accept()?;
        peer.set_nodelay(true)?;
        let server = std::thread::spawn(move || {
            // An error is the end of the connection; the other side notices.
            let _ = answer(peer, sizes);
        });
        Ok(Self { stream, sizes, server: Some(server), buf: vec![0; READ] })
    }

    /// Keeps `depth` requests under way for `time`.
    pub fn run(&mut self, depth: usize, time: Duration) -> io::Result<Rate> {
        let requests = vec![5; self.sizes.request * depth];
        let begin = Instant::now();
        let (mut out, mut done, mut have) = (depth, 0, 0);
        self.stream.write_all(&requests)?;
        while out > 0 {
            match self.stream.read(&mut self.buf)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => have += n,
            }
            let ended = have / self.sizes.answer;
            have %= self.sizes.answer;
            done += ended as u64;
            if begin.elapsed() < time {
                self.stream.write_all(&requests[..ended * self.sizes.request])?;
            } else {
                out -= ended;
            }
        }
        Ok(Rate { done, time: begin.elapsed() })
    }
}

impl Drop for RawLoop {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

fn answer(mut stream: TcpStream, sizes: Sizes) -> io::Result<()> {
    let mut buf = vec![0; READ];
    let most = (READ / sizes.answer).max(1);
    let answers = vec![7; most * sizes.answer];
    let mut have = 0;
    loop {
        match stream.read(&mut buf)? {
            0 => return Ok(()),
            n => have += n,
        }
        let mut due = have / sizes.request;
        have %= sizes.request;
        while due > 0 {
            let n = due.min(most);
            stream.write_all(&answers[..n * sizes.answer])?;
            due -= n;
        }
    }
}
