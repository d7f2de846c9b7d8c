//! The capture files that commands read: how they are named on the command line, opened, and what is said when they cannot be.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nvmf_capture::tls::KeyLog;
use nvmf_capture::{Capture, Direction, Ends, Event, Follow, Followed, Watcher};
use nvmf_conformance::ExitStatus;
use nvmf_conformance::report::printable;

use crate::output;

/// One capture file and how it is read.
#[derive(clap::Args)]
pub struct Input {
    /// pcap or pcapng, also compressed by gzip; `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub reading: Reading,
}

/// How capture files are read, for commands that take several of them. The options that all of them share belong here.
#[derive(clap::Args)]
pub struct Reading {
    /// Secrets of TLS connections: a key log, as TLS libraries write it where SSLKEYLOGFILE is set; those in a pcapng are found without
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Take every TCP connection of this port for NVMe/TCP, whatever it carries; as in Wireshark `tcp.port==PORT,nvme-tcp`, or the port
    /// alone. May be given several times
    #[arg(long, value_name = "PORT", value_parser = decode_as)]
    pub decode_as: Vec<u16>,
}

/// The port of `--decode-as`.
fn decode_as(text: &str) -> Result<u16, String> {
    let port = match text.split_once("==") {
        Some((field, rest)) => {
            let (port, protocol) = rest.split_once(',').unwrap_or((rest, ""));
            if field.trim() != "tcp.port" || !["nvme-tcp", "nvmetcp"].contains(&protocol.trim()) {
                return Err("only tcp.port==PORT,nvme-tcp can be told".to_owned());
            }
            port
        }
        None => text,
    };
    port.trim().parse().map_err(|_| format!("`{}` is no port", port.trim()))
}

impl Input {
    /// Lets `watcher` see it go by; see [`Reading::follow`].
    pub fn follow(&self, watcher: &mut dyn Watcher) -> Result<Followed, ExitCode> {
        self.reading.follow(&self.file, watcher)
    }
}

impl Reading {
    /// Reads all of `file` into memory, and says on standard error what is odd about it. The error is the status to end with: what is
    /// wrong was said.
    pub fn capture(&self, file: &Path) -> Result<Capture, ExitCode> {
        let name = file.display();
        let refuse = |e: &dyn std::fmt::Display| output::refuse(ExitStatus::Harness, &format!("{name}: {e}"));
        let reader = open(file).map_err(|e| refuse(&format!("cannot be read: {e}")))?;
        let capture = Capture::follow(&self.how()?, reader).map_err(|e| refuse(&e))?;
        for note in capture.notes() {
            eprintln!("note: {}", printable(&format!("{name}: {note}")));
        }
        if capture.connections().is_empty() {
            let (packets, others) = (capture.packets(), capture.other_connections());
            eprintln!("note: {name}: no NVMe/TCP in {packets} packets, {others} other TCP connections");
        }
        Ok(capture)
    }

    /// Lets `watcher` see all of `file` go by, and says on standard error what is odd about it, or why it ends early.
    pub fn follow(&self, file: &Path, watcher: &mut dyn Watcher) -> Result<Followed, ExitCode> {
        let name = file.display().to_string();
        let refuse = |e: &dyn std::fmt::Display| output::refuse(ExitStatus::Harness, &format!("{name}: {e}"));
        let reader = open(file).map_err(|e| refuse(&format!("cannot be read: {e}")))?;
        let mut noted = Noted { file: name.clone(), connections: 0, watcher };
        let followed = self.how()?.read(reader, &mut noted).map_err(|e| refuse(&e))?;
        if noted.connections == 0 {
            let (frames, others) = (followed.frames, followed.others);
            eprintln!("note: {name}: no NVMe over Fabrics in {frames} frames, {others} other TCP connections");
        }
        Ok(followed)
    }

    fn how(&self) -> Result<Follow, ExitCode> {
        let follow = self.decode_as.iter().fold(Follow::new(), |follow, port| follow.decode_as(*port));
        let Some(path) = &self.keys else { return Ok(follow) };
        let refuse = |e: &dyn std::fmt::Display| output::refuse(ExitStatus::Harness, &format!("{}: {e}", path.display()));
        let text = std::fs::read(path).map_err(|e| refuse(&format!("cannot be read: {e}")))?;
        Ok(follow.keys(KeyLog::read(&text).map_err(|e| refuse(&format!("is no key log: {e}")))?))
    }
}

/// Says on standard error what is odd about a file, and hands everything else on.
struct Noted<'a> {
    file: String,
    connections: usize,
    watcher: &'a mut dyn Watcher,
}

impl Watcher for Noted<'_> {
    fn opened(&mut self, conn: usize, ends: &Ends) {
        self.connections += 1;
        self.watcher.opened(conn, ends);
    }

    fn event(&mut self, conn: usize, event: &Event) {
        self.watcher.event(conn, event);
    }

    fn chunk(&mut self, conn: usize, dir: Direction, at_ns: u64, bytes: &[u8]) {
        self.watcher.chunk(conn, dir, at_ns, bytes);
    }

    fn repeated(&mut self, conn: usize, dir: Direction, at_ns: u64, len: usize) {
        self.watcher.repeated(conn, dir, at_ns, len);
    }

    fn over(&mut self, conn: usize) {
        self.watcher.over(conn);
    }

    fn note(&mut self, note: &str) {
        eprintln!("note: {}", printable(&format!("{}: {note}", self.file)));
        self.watcher.note(note);
    }
}

fn open(file: &Path) -> std::io::Result<Box<dyn Read>> {
    if file == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 16, File::open(file)?)))
}
