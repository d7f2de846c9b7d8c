//! The task of an RDMA device: between a carrier of RoCEv2 with its software NIC, the engine's [`Target`], the hub and stores.

use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;

use nvmf_engine::RdmaSettings;
use nvmf_engine::message::ConnectionId;
use nvmf_engine::rdma::Target;
use nvmf_engine::tcp::StoreDone;
use nvmf_roce::Nic;
use nvmf_seam::Instant;
use nvmf_wire::tcp::IO_PORT;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::connection::sleep;
use super::shared::{DeviceMail, Shared};
use crate::roce::{Line, Way};

/// One NIC, and the connections over it.
pub(super) struct Device {
    way: Way,
    line: Line,
    target: Target<Nic>,
    /// The carrier's socket once more, of whatever kind it is: tells when something came, and nothing else is done with it.
    socket: UdpSocket,
}

/// Adds a port of the hub to the device at its address, which is made where there is none. The address that hosts reach it by.
pub(super) fn listen(
    devices: &mut Vec<Device>,
    way: &Way,
    at: SocketAddr,
    hub_port: u16,
    settings: &RdmaSettings,
) -> io::Result<SocketAddr> {
    let address = way.address().unwrap_or(at.ip());
    let known = devices.iter().position(|d| d.way == *way && d.line.address() == address);
    let device = match known.and_then(|i| devices.get_mut(i)) {
        Some(device) => device,
        None => {
            let line = Line::new(way.open(Some(address), None)?);
            let socket = UdpSocket::from_std(net::UdpSocket::from(line.as_fd().try_clone_to_owned()?))?;
            let target = Target::new(line.nic(), settings.clone());
            devices.push(Device { way: way.clone(), line, target, socket });
            devices.last_mut().ok_or(io::ErrorKind::Other)?
        }
    };
    let port = if at.port() == 0 { IO_PORT } else { at.port() };
    device.target.listen(port, hub_port).map_err(|e| io::Error::other(format!("RDMA port {port}: {e}")))?;
    Ok(SocketAddr::new(device.line.address(), port))
}

/// What the task is told from outside.
struct Inbox {
    messages: UnboundedReceiver<(ConnectionId, nvmf_engine::message::ToConnection)>,
    stores: UnboundedReceiver<(ConnectionId, StoreDone)>,
    mail: DeviceMail,
    done: UnboundedSender<(ConnectionId, StoreDone)>,
}

impl Device {
    /// Serves until the task is aborted, or the carrier fails.
    pub async fn serve(mut self, shared: Arc<Shared>) {
        let ((mail, messages), (done, stores)) = (unbounded_channel(), unbounded_channel());
        let mut inbox = Inbox { messages, stores, mail, done };
        if shared.wants_packets() {
            let shared = shared.clone();
            self.line.tap(Box::new(move |packet| shared.packet(packet)));
        }
        loop {
            let now = shared.now();
            let Ok(turn) = self.line.turn(now, &mut self.target.device) else { return };
            self.pump(&shared, &mut inbox, now);
            if self.line.send(now, &mut self.target.device).is_err() {
                return;
            }
            if turn.more {
                tokio::task::yield_now().await;
                continue;
            }
            let due = [self.target.poll_timeout(), self.line.due(now, &mut self.target.device)].into_iter().flatten().min();
            let moment = due.map(|d| shared.moment(d));
            tokio::select! {
                r = self.socket.readable() => {
                    if r.is_err() {
                        return;
                    }
                    // Taken for read before anything is, so that what comes meanwhile is told again.
                    let nothing = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
                    let _ = self.socket.try_io(Interest::READABLE, nothing);
                }
                message = inbox.messages.recv() => if let Some((to, message)) = message {
                    self.target.handle_message(shared.now(), to, message);
                },
                stored = inbox.stores.recv() => if let Some((to, done)) = stored {
                    self.target.handle_store(shared.now(), to, done);
                },
                () = sleep(moment) => {}
            }
        }
    }

    /// Moves everything that can be moved without waiting.
    fn pump(&mut self, shared: &Shared, inbox: &mut Inbox, now: Instant) {
        let ours = SocketAddr::new(self.line.address(), IO_PORT);
        self.target.handle_timeout(now);
        loop {
            let mut moved = false;
            while let Ok((to, message)) = inbox.messages.try_recv() {
                self.target.handle_message(now, to, message);
            }
            while let Ok((to, done)) = inbox.stores.try_recv() {
                self.target.handle_store(now, to, done);
            }
            shared.turn(now, &mut self.target, &inbox.mail, ours);
            while let Some((of, request)) = self.target.poll_store() {
                if request.blocking {
                    let done = inbox.done.clone();
                    // The receiver is gone where the target is: nobody waits for it then.
                    tokio::task::spawn_blocking(move || done.send((of, request.execute())).is_ok());
                } else {
                    self.target.handle_store(now, of, request.execute());
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }
}
