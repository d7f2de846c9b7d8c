//! What the connections of a target share: the hub, their mailboxes and the clock.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nvmf_engine::controller::Hub;
use nvmf_engine::message::{ConnectionId, ToConnection, ToHub};
use nvmf_engine::rdma::{self, TargetEvent};
use nvmf_engine::{TcpSettings, tcp::Event};
use nvmf_seam::rdma::Device;
use nvmf_seam::{Instant, Side};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Observer, TapFactory, TargetConfig};

/// Shared by all tasks of a target.
pub(super) struct Shared {
    center: Mutex<Center>,
    begin: std::time::Instant,
    pub tcp: Arc<TcpSettings>,
    pub tap: Option<TapFactory>,
    observer: Option<Arc<dyn Observer>>,
    /// The hub's next timeout came nearer.
    earlier: Notify,
}

struct Center {
    hub: Hub,
    /// What the hub says is answered by one message a request, so that the queues bound the mailboxes.
    mail: BTreeMap<ConnectionId, Mailbox>,
    next: u64,
    /// When the timer task wakes.
    armed: Option<Instant>,
}

enum Mailbox {
    /// Of a task of its own.
    Own(UnboundedSender<ToConnection>),
    /// Of the task that has all connections of an RDMA device.
    Device(DeviceMail),
}

/// How the task of a device is told what the hub says to its connections.
pub(super) type DeviceMail = UnboundedSender<(ConnectionId, ToConnection)>;

impl Mailbox {
    fn put(&self, to: ConnectionId, message: ToConnection) {
        // A task that ended takes nothing more.
        match self {
            Self::Own(mail) => drop(mail.send(message)),
            Self::Device(mail) => drop(mail.send((to, message))),
        }
    }
}

impl Center {
    fn put(&self, to: ConnectionId, message: ToConnection) {
        if let Some(mail) = self.mail.get(&to) {
            mail.put(to, message);
        }
    }
}

impl Shared {
    pub fn new(hub: Hub, config: TargetConfig) -> Self {
        Self {
            center: Mutex::new(Center { hub, mail: BTreeMap::new(), next: 0, armed: None }),
            begin: std::time::Instant::now(),
            tcp: Arc::new(config.tcp),
            tap: config.tap,
            observer: config.observer,
            earlier: Notify::new(),
        }
    }

    pub fn now(&self) -> Instant {
        Instant::START + self.begin.elapsed()
    }

    /// The moment `at` on the runtime's clock.
    pub fn moment(&self, at: Instant) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.begin + at.since(Instant::START))
    }

    fn center(&self) -> MutexGuard<'_, Center> {
        self.center.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn open(
        &self,
        port: u16,
        ip: Option<IpAddr>,
        host: SocketAddr,
        local: Option<SocketAddr>,
    ) -> (ConnectionId, UnboundedReceiver<ToConnection>) {
        let (tx, rx) = unbounded_channel();
        let mut c = self.center();
        let id = ConnectionId(c.next);
        c.next += 1;
        c.hub.open(id, port, ip.map(|ip| ip.to_canonical()));
        c.mail.insert(id, Mailbox::Own(tx));
        drop(c);
        if let Some(o) = &self.observer {
            o.opened(self.now(), id, host, local.unwrap_or(host));
        }
        (id, rx)
    }

    pub fn tell(&self, from: ConnectionId, message: ToHub) {
        let now = self.now();
        self.with(now, |hub| hub.handle_message(now, from, message));
    }

    pub fn timeout(&self) {
        let now = self.now();
        self.with(now, |hub| hub.handle_timeout(now));
    }

    /// Does something with the hub, then delivers what it has to say.
    pub fn with<R>(&self, now: Instant, f: impl FnOnce(&mut Hub) -> R) -> R {
        let mut c = self.center();
        let result = f(&mut c.hub);
        while let Some((to, message)) = c.hub.poll_message() {
            c.put(to, message);
        }
        self.hub_moved(now, &mut c);
        result
    }

    /// A turn of the connections of an RDMA device, whose task gets `mail`. What happened is told to the observer.
    pub fn turn<D: Device>(&self, now: Instant, target: &mut rdma::Target<D>, mail: &DeviceMail, ours: SocketAddr) {
        let mut c = self.center();
        let Center { hub, next, .. } = &mut *c;
        target.turn(now, hub, next);
        while let Some((to, message)) = target.poll_other() {
            c.put(to, message);
        }
        while let Some(event) = target.poll_event() {
            match event {
                TargetEvent::Opened { connection, from } => {
                    c.mail.insert(connection, Mailbox::Device(mail.clone()));
                    self.observer.iter().for_each(|o| o.opened(now, connection, from, ours));
                }
                TargetEvent::Closed { connection, reason } => {
                    c.mail.remove(&connection);
                    if let Some(o) = &self.observer {
                        o.connection(now, connection, Event::Close(reason));
                        o.closed(now, connection);
                    }
                }
                event => self.observer.iter().for_each(|o| o.rdma(now, &event)),
            }
        }
        self.hub_moved(now, &mut c);
    }

    /// Tells what happened at the hub, and wakes its timer where that is due earlier now.
    fn hub_moved(&self, now: Instant, c: &mut Center) {
        while let Some(event) = c.hub.poll_event() {
            if let Some(o) = &self.observer {
                o.hub(now, &event);
            }
        }
        let due = c.hub.poll_timeout();
        if due.is_some_and(|d| c.armed.is_none_or(|a| d < a)) {
            self.earlier.notify_one();
        }
    }

    /// The task of a connection ends.
    pub fn gone(&self, id: ConnectionId) {
        self.center().mail.remove(&id);
        if let Some(o) = &self.observer {
            o.closed(self.now(), id);
        }
    }

    pub fn connections(&self) -> usize {
        self.center().mail.len()
    }

    /// Ends all associations and closes all connections.
    pub fn shut_down(&self) {
        self.with(self.now(), Hub::shut_down);
        let c = self.center();
        c.mail.iter().for_each(|(id, mail)| mail.put(*id, ToConnection::Close));
    }

    pub fn wants_packets(&self) -> bool {
        self.observer.as_ref().is_some_and(|o| o.wants_bytes())
    }

    pub fn packet(&self, packet: &[u8]) {
        if let Some(o) = &self.observer {
            o.packet(self.now(), packet);
        }
    }

    pub fn wants_bytes(&self) -> bool {
        self.observer.as_ref().is_some_and(|o| o.wants_bytes())
    }

    pub fn bytes(&self, id: ConnectionId, from: Side, bytes: &[u8]) {
        if let Some(o) = &self.observer {
            o.bytes(self.now(), id, from, bytes);
        }
    }

    pub fn event(&self, id: ConnectionId, event: Event) {
        if let Some(o) = &self.observer {
            o.connection(self.now(), id, event);
        }
    }
}

/// Wakes the hub when it is due.
pub(super) async fn keep_time(shared: Arc<Shared>) {
    loop {
        let due = {
            let mut c = shared.center();
            c.armed = c.hub.poll_timeout();
            c.armed
        };
        match due {
            Some(at) => {
                tokio::select! {
                    () = tokio::time::sleep_until(shared.moment(at)) => shared.timeout(),
                    () = shared.earlier.notified() => {}
                }
            }
            None => shared.earlier.notified().await,
        }
    }
}
