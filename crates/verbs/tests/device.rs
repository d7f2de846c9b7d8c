//! Two devices' worth of connections over one RDMA device of this machine: all kinds of work, and what ends it.
//!
//! Without a device there is nothing to test: it says so. `NVMF_VERBS=NAME@ADDRESS` names the device and an address of it, as in
//! `rxe0@10.0.2.15`; the lab of this project runs it in a guest with soft-RoCE.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant as Clock};

use bytes::Bytes;
use nvmf_seam::rdma::{
    Accept, Access, Ask, CmEvent, Completion, Device, DeviceEvent, Done, Memory, Pd, QpId, Remote, Rkey, Work, WorkError, WorkId,
};
use nvmf_seam::{Head, Instant};
use nvmf_verbs::{Settings, VerbsDevice};

/// Not that of a kernel's target, which may be there too.
const PORT: u16 = 14_420;
const NOW: Instant = Instant::START;
const PATIENCE: Duration = Duration::from_secs(20);

struct End {
    device: VerbsDevice,
    events: VecDeque<(QpId, DeviceEvent)>,
    next: u64,
}

impl End {
    fn new(name: &str, address: IpAddr) -> Self {
        let settings = Settings { address: Some(address), ..Settings::of(name) };
        Self { device: VerbsDevice::open(settings).unwrap(), events: VecDeque::new(), next: 0 }
    }

    fn turn(&mut self) {
        self.device.turn();
        while let Some(e) = self.device.poll_event() {
            self.events.push_back(e);
        }
    }

    fn id(&mut self) -> WorkId {
        self.next += 1;
        WorkId(self.next)
    }

    fn post(&mut self, qp: QpId, make: impl FnOnce(WorkId) -> Work) -> WorkId {
        let id = self.id();
        self.device.post(NOW, qp, make(id)).unwrap();
        id
    }
}

/// The host's end, the controller's, and a connection between them.
struct Rig {
    host: End,
    target: End,
    h: QpId,
    t: QpId,
}

impl Rig {
    fn wait<T>(&mut self, what: &str, mut find: impl FnMut(&mut Self) -> Option<T>) -> T {
        let until = Clock::now() + PATIENCE;
        loop {
            self.host.turn();
            self.target.turn();
            if let Some(found) = find(self) {
                return found;
            }
            assert!(Clock::now() < until, "no {what}; host {:?}, target {:?}", self.host.events, self.target.events);
            self.host.device.wait(Duration::from_millis(1));
        }
    }

    fn done(&mut self, of_host: bool, id: WorkId) -> Result<Done, WorkError> {
        self.wait(&format!("completion of {id:?}"), |r| {
            let events = if of_host { &mut r.host.events } else { &mut r.target.events };
            let at = events.iter().position(|(_, e)| matches!(e, DeviceEvent::Completed(Completion { id: i, .. }) if *i == id))?;
            match events.remove(at) {
                Some((_, DeviceEvent::Completed(c))) => Some(c.result),
                _ => None,
            }
        })
    }

    fn cm(&mut self, of_host: bool) -> (QpId, CmEvent) {
        self.wait("event of CM", |r| {
            let events = if of_host { &mut r.host.events } else { &mut r.target.events };
            let at = events.iter().position(|(_, e)| matches!(e, DeviceEvent::Cm(_)))?;
            match events.remove(at) {
                Some((qp, DeviceEvent::Cm(e))) => Some((qp, e)),
                _ => None,
            }
        })
    }

    fn connected(name: &str, address: IpAddr) -> Self {
        let (mut host, mut target) = (End::new(name, address), End::new(name, address));
        target.device.listen(PORT).unwrap();
        let h = host.device.connect(NOW, SocketAddr::new(address, PORT), &ask(b"from the host")).unwrap();
        let mut rig = Self { host, target, h, t: QpId(0) };
        let (t, event) = rig.cm(false);
        rig.t = t;
        let CmEvent::Request(asked) = event else { panic!("{event:?}") };
        assert!(asked.private.starts_with(b"from the host"), "{asked:?}");
        assert_eq!((asked.to.port(), asked.from.ip(), asked.responder_resources), (PORT, address, 4));
        let accept = Accept {
            private: Bytes::from_static(b"agreed"),
            responder_resources: 0,
            initiator_depth: 4,
            rnr_retry_count: 7,
            pd: Pd(0),
        };
        rig.target.device.accept(NOW, t, &accept).unwrap();
        let (_, event) = rig.cm(true);
        let CmEvent::Accepted(accepted) = event else { panic!("{event:?}") };
        assert!(accepted.private.starts_with(b"agreed"), "{accepted:?}");
        assert_eq!(rig.cm(false), (t, CmEvent::Established));
        rig
    }
}

fn ask(private: &'static [u8]) -> Ask {
    Ask { responder_resources: 4, retry_count: 3, ..Ask::new(Bytes::from_static(private)) }
}

fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i * 7 + i / 256) as u8).collect::<Vec<_>>().into()
}

fn send(head: &[u8], payload: Bytes, invalidate: Option<Rkey>) -> impl FnOnce(WorkId) -> Work {
    let head = Head::new(head);
    move |id| Work::Send { id, head, payload, invalidate }
}

fn registered(rig: &mut Rig, memory: Memory, access: Access) -> Remote {
    let h = rig.h;
    let id = rig.host.post(h, |id| Work::Register { id, memory, access });
    match rig.done(true, id) {
        Ok(Done::Registered(at)) => at,
        other => panic!("{other:?}"),
    }
}

fn capsules(rig: &mut Rig) {
    for payload in [0, 4096, 40_000] {
        let bytes = pattern(payload);
        let t = rig.t;
        let r = rig.target.post(t, |id| Work::Receive { id, len: 65_536 });
        let h = rig.h;
        let s = rig.host.post(h, send(&[9; 64], bytes.clone(), None));
        assert!(matches!(rig.done(true, s), Ok(Done::Sent)));
        match rig.done(false, r) {
            Ok(Done::Received { data, invalidated: None }) => {
                assert!(data[..64] == [9; 64] && data[64..] == bytes, "{payload} bytes")
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A write command's data by READ, a read command's by WRITE, and the key invalidated with the response where the device does that.
fn data(rig: &mut Rig) {
    let source = pattern(1 << 20);
    let at = registered(rig, Memory::shared(source.clone()), Access { read: true, write: false });
    let t = rig.t;
    let from = Remote { addr: at.addr + 4096, key: at.key };
    let id = rig.target.post(t, |id| Work::Read { id, from, len: (1 << 20) - 4096 });
    match rig.done(false, id) {
        Ok(Done::Read(bytes)) => assert!(bytes == source[4096..]),
        other => panic!("{other:?}"),
    }
    back(rig, at);
    for len in [512, 1 << 18] {
        let at = registered(rig, Memory::zeroed(len), Access { read: false, write: true });
        let bytes = pattern(len);
        let data = bytes.clone();
        let w = rig.target.post(t, |id| Work::Write { id, to: at, data });
        assert!(matches!(rig.done(false, w), Ok(Done::Written)));
        let memory = back(rig, at);
        assert!(memory.as_slice() == bytes);
        assert_eq!(memory.touched(), 0);
    }
}

/// The controller's response, with invalidation where there is one; the memory behind the key comes back.
fn back(rig: &mut Rig, at: Remote) -> Memory {
    let (h, t) = (rig.h, rig.t);
    let remote = rig.host.device.limits().takes_invalidate;
    let r = rig.host.post(h, |id| Work::Receive { id, len: 16 });
    let s = rig.target.post(t, send(&[3; 16], Bytes::new(), remote.then_some(at.key)));
    assert!(matches!(rig.done(false, s), Ok(Done::Sent)));
    match rig.done(true, r) {
        Ok(Done::Received { data, invalidated }) => assert_eq!((&data[..], invalidated), (&[3; 16][..], remote.then_some(at.key))),
        other => panic!("{other:?}"),
    }
    let id = rig.host.post(h, |id| Work::Invalidate { id, key: at.key });
    match rig.done(true, id) {
        Ok(Done::Invalidated(memory)) => memory,
        other => panic!("{other:?}"),
    }
}

/// A key that is no more ends the connection on both sides, and all work is flushed.
fn stale(rig: &mut Rig) {
    let at = registered(rig, Memory::zeroed(4096), Access { read: true, write: true });
    back(rig, at);
    let (h, t) = (rig.h, rig.t);
    let waiting = rig.host.post(h, |id| Work::Receive { id, len: 16 });
    let read = rig.target.post(t, |id| Work::Read { id, from: at, len: 512 });
    assert!(matches!(rig.done(false, read), Err(WorkError::RemoteAccess)));
    let later = rig.target.post(t, send(&[3; 16], Bytes::new(), None));
    assert!(matches!(rig.done(false, later), Err(WorkError::Flushed)));
    rig.target.device.disconnect(NOW, t);
    assert_eq!(rig.cm(true), (h, CmEvent::Disconnected));
    assert!(matches!(rig.done(true, waiting), Err(WorkError::Flushed)));
}

fn refused(name: &str, address: IpAddr) {
    let (mut host, target) = (End::new(name, address), End::new(name, address));
    let h = host.device.connect(NOW, SocketAddr::new(address, PORT), &ask(b"nobody listens")).unwrap();
    let mut rig = Rig { host, target, h, t: QpId(0) };
    assert!(matches!(rig.cm(true).1, CmEvent::Rejected { reason: 8, .. }));
    rig.target.device.listen(PORT).unwrap();
    rig.h = rig.host.device.connect(NOW, SocketAddr::new(address, PORT), &ask(b"refused")).unwrap();
    let (t, event) = rig.cm(false);
    assert!(matches!(event, CmEvent::Request(_)));
    rig.target.device.reject(NOW, t, &[0, 0, 3, 0]).unwrap();
    match rig.cm(true).1 {
        CmEvent::Rejected { reason: 28, private } => assert!(private.starts_with(&[0, 0, 3, 0])),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_kinds_of_work_on_a_device() {
    let Ok(place) = std::env::var("NVMF_VERBS") else {
        eprintln!("skipped: NVMF_VERBS names no RDMA device (NAME@ADDRESS)");
        return;
    };
    let (name, address) = place.split_once('@').expect("NVMF_VERBS=NAME@ADDRESS");
    let address: IpAddr = address.parse().expect("an address behind @");
    let begin = Clock::now();
    // Said as they begin, so that one that hangs is known.
    let step = |what: &str| println!("{:.1} s: {what}", begin.elapsed().as_secs_f32());
    step("connections refused");
    refused(name, address);
    step("a connection");
    let mut rig = Rig::connected(name, address);
    println!("device {name}: {:?}", rig.host.device.limits());
    step("capsules");
    capsules(&mut rig);
    step("data");
    data(&mut rig);
    step("a stale key");
    stale(&mut rig);
    step("the end");
    drop(rig);
    step("over");
}

#[test]
fn a_device_that_is_not_there_is_told() {
    let e = VerbsDevice::open(Settings::of("no-such-device")).expect_err("no such device").to_string();
    assert!(e.starts_with("no RDMA device no-such-device: there "), "{e}");
}
