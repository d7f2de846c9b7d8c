//! The task of one connection: between a socket, an engine's [`ControllerConnection`], the hub, stores and a tap.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nvmf_engine::message::{ConnectionId, ToConnection};
use nvmf_engine::tcp::{ControllerConnection, Event, StoreDone};
use nvmf_seam::{Instant, Piped, Side, TapPipe};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::outbox::Outbox;
use super::shared::Shared;

/// How long a closing connection goes on reading, so that bytes under way do not turn our FIN into a RST that could destroy what we
/// sent last.
const LINGER: Duration = Duration::from_millis(500);
/// Bytes read at once.
const READ: usize = 256 * 1024;
/// Reads in a row before other work gets its turn.
const READS: usize = 4;

thread_local! {
    /// One read buffer a thread: an idle connection holds none.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// What the socket said.
enum End {
    /// The host closed, or the connection broke.
    Lost,
    /// Our side closes.
    Ours,
}

struct Task {
    shared: Arc<Shared>,
    id: ConnectionId,
    engine: ControllerConnection,
    mail: UnboundedReceiver<ToConnection>,
    stream: TcpStream,
    out: Outbox,
    tap: Option<TapPipe>,
    stores: (UnboundedSender<StoreDone>, UnboundedReceiver<StoreDone>),
    closing: bool,
    /// The host ended its direction, and the tap hides that.
    deaf: bool,
    /// When a connection that is to end, and whose host does not read, is reset.
    reset_due: Option<Instant>,
}

pub(super) async fn serve(shared: Arc<Shared>, id: ConnectionId, mail: UnboundedReceiver<ToConnection>, stream: TcpStream) {
    let engine = ControllerConnection::new(shared.now(), shared.tcp.clone());
    let tap = shared.tap.as_ref().map(|make| TapPipe::new(make()));
    let mut task = Box::new(Task {
        shared,
        id,
        engine,
        mail,
        stream,
        out: Outbox::default(),
        tap,
        stores: unbounded_channel(),
        closing: false,
        deaf: false,
        reset_due: None,
    });
    let end = task.run().await;
    task.finish(end).await;
}

impl Task {
    async fn run(&mut self) -> End {
        loop {
            self.pump();
            match self.out.write(&self.stream) {
                Ok(true) if self.closing => return End::Ours,
                // Room again: there may be more to send.
                Ok(true) if self.pump() => continue,
                Ok(_) => {}
                Err(_) => return End::Lost,
            }
            if self.stalled() {
                // What we had to say cannot be said. [TCP-TERM-12]
                let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
                return End::Lost;
            }
            if let Some(end) = self.wait().await {
                return end;
            }
        }
    }

    /// True where the connection is to end, and the host took nothing of what is left for too long.
    fn stalled(&mut self) -> bool {
        if self.out.is_empty() || !(self.closing || self.engine.is_ending()) {
            self.reset_due = None;
            return false;
        }
        let now = self.shared.now();
        *self.reset_due.get_or_insert(now + self.shared.tcp.term_wait) <= now
    }

    /// Moves everything that can be moved without waiting. True where there is something to write.
    fn pump(&mut self) -> bool {
        loop {
            let now = self.shared.now();
            let mut moved = false;
            while let Ok(message) = self.mail.try_recv() {
                self.engine.handle_message(now, message);
                moved = true;
            }
            while let Ok(done) = self.stores.1.try_recv() {
                self.engine.handle_store(now, done);
                moved = true;
            }
            while let Some(message) = self.engine.poll_message() {
                self.shared.tell(self.id, message);
                moved = true;
            }
            while let Some(request) = self.engine.poll_store() {
                if request.blocking {
                    let done = self.stores.0.clone();
                    // The receiver is gone where the connection is: nobody waits for it then.
                    tokio::task::spawn_blocking(move || done.send(request.execute()).is_ok());
                } else {
                    self.engine.handle_store(now, request.execute());
                }
                moved = true;
            }
            moved |= self.send(now);
            moved |= self.tapped(now);
            if !moved {
                break;
            }
        }
        while let Some(event) = self.engine.poll_event() {
            self.shared.event(self.id, event);
            if matches!(event, Event::Close(_)) {
                self.closing = true;
                while let Some(message) = self.engine.poll_message() {
                    self.shared.tell(self.id, message);
                }
            }
        }
        !self.out.is_empty()
    }

    fn send(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while !self.out.is_full()
            && let Some(transmit) = self.engine.poll_transmit(now)
        {
            moved = true;
            match &mut self.tap {
                Some(tap) => tap.push(now, Side::Controller, &transmit.to_bytes()),
                None => {
                    if self.shared.wants_bytes() {
                        self.shared.bytes(self.id, Side::Controller, &transmit.to_bytes());
                    }
                    self.out.push(transmit);
                }
            }
        }
        moved
    }

    fn tapped(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(tap) = &mut self.tap
            && let Some(piped) = tap.poll(now)
        {
            moved = true;
            match piped {
                Piped::To(Side::Host, bytes) => {
                    self.shared.bytes(self.id, Side::Controller, &bytes);
                    self.out.push_bytes(bytes);
                }
                Piped::To(Side::Controller, bytes) => self.engine.handle_bytes(now, &bytes),
                Piped::Close => self.closing = true,
            }
        }
        moved
    }

    /// Waits for the next thing to do.
    async fn wait(&mut self) -> Option<End> {
        let tap = self.tap.as_ref().and_then(TapPipe::poll_timeout);
        let due = [self.engine.poll_timeout(), tap, self.reset_due].into_iter().flatten().min();
        let moment = due.map(|d| self.shared.moment(d));
        let reading = self.engine.can_receive() && !self.out.is_full() && !self.deaf;
        tokio::select! {
            r = self.stream.readable(), if reading => match r {
                Ok(()) => return self.read(),
                Err(_) => return Some(End::Lost),
            },
            r = self.stream.writable(), if !self.out.is_empty() => if r.is_err() {
                return Some(End::Lost);
            },
            message = self.mail.recv() => if let Some(m) = message {
                self.engine.handle_message(self.shared.now(), m);
            },
            done = self.stores.1.recv() => if let Some(d) = done {
                self.engine.handle_store(self.shared.now(), d);
            },
            () = sleep(moment) => self.engine.handle_timeout(self.shared.now()),
        }
        None
    }

    fn read(&mut self) -> Option<End> {
        SCRATCH.with_borrow_mut(|scratch| {
            for _ in 0..READS {
                match self.stream.try_read(scratch) {
                    Ok(0) if self.tap.as_mut().is_some_and(|tap| tap.hides_end(Side::Host)) => {
                        self.deaf = true;
                        return None;
                    }
                    Ok(0) => return Some(End::Lost),
                    Ok(n) => {
                        let bytes = scratch.get(..n).unwrap_or(&[]);
                        let now = self.shared.now();
                        if self.shared.wants_bytes() {
                            self.shared.bytes(self.id, Side::Host, bytes);
                        }
                        match &mut self.tap {
                            Some(tap) => tap.push(now, Side::Host, bytes),
                            None => self.engine.handle_bytes(now, bytes),
                        }
                        if n < scratch.len() || !self.engine.can_receive() {
                            return None;
                        }
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return Some(End::Lost),
                }
            }
            None
        })
    }

    async fn finish(mut self: Box<Self>, end: End) {
        if matches!(end, End::Lost) {
            // The host may have closed its direction alone: what we had to say still goes out, as far as the socket takes it.
            self.pump();
            let _ = self.out.write(&self.stream);
        }
        self.engine.handle_closed(self.shared.now());
        while let Some(message) = self.engine.poll_message() {
            self.shared.tell(self.id, message);
        }
        if matches!(end, End::Ours) {
            self.linger().await;
        }
        self.shared.gone(self.id);
    }

    /// Sends FIN, then reads until the host closes too.
    async fn linger(&mut self) {
        use tokio::io::AsyncWriteExt;
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let drain = async {
            while self.stream.readable().await.is_ok() {
                match SCRATCH.with_borrow_mut(|scratch| self.stream.try_read(scratch)) {
                    Ok(0) => return,
                    Ok(_) => {}
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        };
        let _ = tokio::time::timeout(LINGER, drain).await;
    }
}

/// Until `moment`; for ever without one.
pub(super) async fn sleep(moment: Option<tokio::time::Instant>) {
    match moment {
        Some(m) => tokio::time::sleep_until(m).await,
        None => std::future::pending().await,
    }
}
