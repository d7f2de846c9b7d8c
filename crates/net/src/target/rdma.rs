//! The task of an RDMA device: between what moves the device, the engine's [`Target`], the hub and stores.

use std::io;
use std::net::{self, IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use nvmf_engine::RdmaSettings;
use nvmf_engine::message::ConnectionId;
use nvmf_engine::rdma::Target;
use nvmf_engine::tcp::StoreDone;
use nvmf_seam::Instant;
use nvmf_seam::rdma::DeviceError;
use nvmf_wire::tcp::IO_PORT;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::connection::sleep;
use super::shared::{DeviceMail, Shared};
use crate::driver::{Driver, NicSource};

/// A device with what moves it, for a target.
pub struct ServedDevice(Box<dyn Serve>);

impl ServedDevice {
    /// Must be called within a tokio runtime; the descriptor of `line` is one that does not block.
    pub fn new<D, L>(line: L, device: D, settings: &RdmaSettings) -> io::Result<Self>
    where
        D: nvmf_seam::rdma::Device + Send + 'static,
        L: Driver<D> + 'static,
    {
        let socket = UdpSocket::from_std(net::UdpSocket::from(line.as_fd().try_clone_to_owned()?))?;
        let target = Target::new(device, settings.clone());
        Ok(Self(Box::new(Device { line, target, socket })))
    }

    /// Serves until the task is aborted, or the driver fails.
    pub(super) async fn serve(self, shared: Arc<Shared>) {
        self.0.serve(shared).await;
    }
}

/// A [`Device`], whatever it is.
trait Serve: Send {
    fn address(&self) -> IpAddr;
    fn listen(&mut self, port: u16, hub_port: u16) -> Result<(), DeviceError>;
    fn serve(self: Box<Self>, shared: Arc<Shared>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// One device, and the connections over it.
struct Device<D, L> {
    line: L,
    target: Target<D>,
    /// The line's descriptor once more, of whatever kind it is: tells when something came, and nothing else is done with it.
    socket: UdpSocket,
}

/// Adds a port of the hub to the device at its address, which is made where there is none. The address that hosts reach it by.
pub(super) fn listen(
    devices: &mut Vec<(String, ServedDevice)>,
    source: &dyn NicSource,
    at: SocketAddr,
    hub_port: u16,
    settings: &RdmaSettings,
) -> io::Result<SocketAddr> {
    let address = source.address().unwrap_or(at.ip());
    let name = source.to_string();
    let known = devices.iter().position(|(of, d)| *of == name && d.0.address() == address);
    let device = match known.and_then(|i| devices.get_mut(i)) {
        Some((_, device)) => device,
        None => {
            devices.push((name, source.at(address, settings)?));
            devices.last_mut().map(|(_, device)| device).ok_or(io::ErrorKind::Other)?
        }
    };
    let port = if at.port() == 0 { IO_PORT } else { at.port() };
    device.0.listen(port, hub_port).map_err(|e| io::Error::other(format!("RDMA port {port}: {e}")))?;
    Ok(SocketAddr::new(device.0.address(), port))
}

/// What the task is told from outside.
struct Inbox {
    messages: UnboundedReceiver<(ConnectionId, nvmf_engine::message::ToConnection)>,
    stores: UnboundedReceiver<(ConnectionId, StoreDone)>,
    mail: DeviceMail,
    done: UnboundedSender<(ConnectionId, StoreDone)>,
}

impl<D, L> Serve for Device<D, L>
where
    D: nvmf_seam::rdma::Device + Send + 'static,
    L: Driver<D> + 'static,
{
    fn address(&self) -> IpAddr {
        self.line.address()
    }

    fn listen(&mut self, port: u16, hub_port: u16) -> Result<(), DeviceError> {
        self.target.listen(port, hub_port)
    }

    fn serve(self: Box<Self>, shared: Arc<Shared>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.run(shared))
    }
}

impl<D: nvmf_seam::rdma::Device + Send, L: Driver<D>> Device<D, L> {
    async fn run(mut self: Box<Self>, shared: Arc<Shared>) {
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
