//! Connect: who may have a queue, and what is wrong where. [Base 2.0, 6.3]

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use nvmf_seam::Instant;
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::layout::Structure;
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::property::{Cc, Csts};
use nvmf_wire::tcp::ADMIN_IN_CAPSULE;
use nvmf_wire::{Cid, Cntlid, Nqn, Qid, Sqe, Status};

use super::features::Features;
use super::state::{Controller, Kind};
use super::{Hub, HubEvent, PortTransport};
use crate::message::{Admitted, ConnectionId, ToConnection};
use crate::settings::ControllerModel;

/// A failed Connect: status and CQE DW0. [FAB-CONNECT-36, FAB-CONNECT-39]
struct Refusal {
    status: Status,
    result: u32,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status, result: 0 }
    }
}

/// A field of the SQE is wrong: IATTR 0.
fn in_sqe(field: &str) -> Refusal {
    Refusal { status: Status::CONNECT_INVALID_PARAMETERS.dnr(), result: Connect::LAYOUT.offset(field) as u32 }
}

/// A field of the data is wrong: IATTR 1.
fn in_data(field: &str) -> Refusal {
    Refusal { status: Status::CONNECT_INVALID_PARAMETERS.dnr(), result: 1 << 16 | ConnectData::LAYOUT.offset(field) as u32 }
}

/// The CID stands where it stands in every SQE.
fn cid_of(sqe: &Connect) -> Cid {
    Sqe::from_bytes(*sqe.as_bytes()).cid()
}

/// Controller IDs from here on are never allocated. [FAB-CNTLID-01]
const CNTLID_END: u16 = 0xfff0;

impl Hub {
    pub(super) fn connect(&mut self, now: Instant, from: ConnectionId, sqe: &Connect, data: &ConnectData) {
        let judged =
            if sqe.qid() == Qid::ADMIN { self.connect_admin(now, from, sqe, data) } else { self.connect_io(from, sqe, data) };
        match judged {
            Ok((key, mut admitted)) => {
                let Some(c) = self.controllers.get(&key) else { return };
                admitted.result = u32::from(c.cntlid.0);
                self.events.push_back(HubEvent::Connected {
                    connection: from,
                    cntlid: c.cntlid,
                    qid: sqe.qid().0,
                    hostnqn: c.hostnqn.clone(),
                    subnqn: c.subnqn.clone(),
                });
                if let Some(link) = self.links.get_mut(&from) {
                    link.controller = Some(key);
                    link.qid = sqe.qid().0;
                }
                self.out.push_back((from, ToConnection::Admitted(Box::new(admitted))));
            }
            Err(Refusal { status, result }) => {
                self.events.push_back(HubEvent::Refused { connection: from, status, result });
                let cid = cid_of(sqe);
                let done = ToConnection::Complete { cid, status, result: u64::from(result), data: Default::default() };
                self.out.push_back((from, done));
            }
        }
    }

    /// What is judged alike for both kinds of queue; gives the subsystem's and the host's name.
    fn connect_names(&self, from: ConnectionId, sqe: &Connect, data: &ConnectData) -> Result<(String, String), Refusal> {
        // [FAB-CONNECT-04]
        if sqe.recfmt() != 0 {
            return Err(Status::INCOMPATIBLE_FORMAT.dnr().into());
        }
        // [FAB-CONNECT-20]
        if data.hostid() == [0; 16] {
            return Err(in_data("hostid"));
        }
        // Lowest offset first. [FAB-CONNECT-25, FAB-CONNECT-26]
        let subnqn = Nqn::from_field(&data.subnqn().0).map_err(|_| in_data("subnqn"))?;
        let discovery_only = self.links.get(&from).and_then(|l| self.ports.get(&l.port)).is_some_and(|p| p.discovery_only);
        let discovery = subnqn.as_str() == DISCOVERY_NQN;
        // NQNs are compared byte by byte. [NQN-08]
        if !discovery && (discovery_only || !self.subsystems.contains_key(subnqn.as_str())) {
            return Err(in_data("subnqn"));
        }
        let hostnqn = Nqn::from_field(&data.hostnqn().0).map_err(|_| in_data("hostnqn"))?;
        // [FAB-CONNECT-27]
        if self.subsystems.get(subnqn.as_str()).is_some_and(|s| !s.allows(hostnqn.as_str())) {
            return Err(Status::CONNECT_INVALID_HOST.dnr().into());
        }
        Ok((subnqn.as_str().to_owned(), hostnqn.as_str().to_owned()))
    }

    fn connect_admin(
        &mut self,
        now: Instant,
        from: ConnectionId,
        sqe: &Connect,
        data: &ConnectData,
    ) -> Result<(u32, Admitted), Refusal> {
        let (subnqn, hostnqn) = self.connect_names(from, sqe, data)?;
        // SQSIZE is 0's based; a queue has at least two slots. [FAB-CONNECT-07, FAB-CONNECT-08, FAB-QUEUE-13, FAB-QUEUE-14]
        let entries = sqe.sqsize().count();
        if entries < 2 || entries > u64::from(self.settings.admin_queue_entries) {
            return Err(in_sqe("sqsize"));
        }
        let kind = if subnqn == DISCOVERY_NQN { Kind::Discovery } else { Kind::Io };
        // TCP and RDMA require Keep Alive; at a discovery controller 0 asks for a connection that is not persistent. [KA-07, TCP-KATO-01,
        // RDMA-KA-01]
        if kind == Kind::Io && sqe.kato() == 0 && !self.settings.kato_zero {
            return Err(Status::KEEP_ALIVE_TIMEOUT_INVALID.dnr().into());
        }
        let cntlid = self.choose(kind, &subnqn, &hostnqn, data.cntlid())?;
        let Some(link) = self.links.get(&from) else { return Err(Status::INTERNAL_ERROR.into()) };
        let subsystem = self.subsystems.get_mut(&subnqn);
        let ana_base = subsystem.as_ref().map_or(0, |s| s.ana_changes);
        let kept = subsystem.and_then(|s| s.kept.remove(&cntlid.0)).unwrap_or_default();
        let features = Features::new(now, kind, sqe.kato(), self.settings.kas, kept.saved);
        let hot = kind == Kind::Io && features.beyond(self.temperature);
        let controller = Controller {
            kind,
            cntlid,
            deletes_queues: sqe.ioqd(),
            ana_base,
            subnqn,
            hostnqn,
            hostid: data.hostid(),
            port: link.port,
            local: link.local,
            admin: from,
            queues: BTreeMap::new(),
            // [FAB-QUEUE-04]
            cc: Cc::new(),
            csts: Csts::new().with(|s| s.nssro(kept.reset_occurred)),
            keep_alive_due: None,
            enable_due: self.enable_due(now),
            lost_due: None,
            features,
            requests: VecDeque::new(),
            raised: BTreeSet::new(),
            masked: BTreeSet::new(),
            hot,
            changed: BTreeSet::new(),
            errors: kept.errors,
            error_count: kept.error_count,
            aborts: BTreeMap::new(),
            counters: kept.counters,
            created: kept.created.unwrap_or(now),
        };
        let key = self.next_key;
        self.next_key = self.next_key.wrapping_add(1);
        self.controllers.insert(key, controller);
        Ok((key, self.admitted(sqe, key)))
    }

    fn connect_io(&mut self, from: ConnectionId, sqe: &Connect, data: &ConnectData) -> Result<(u32, Admitted), Refusal> {
        let (subnqn, hostnqn) = self.connect_names(from, sqe, data)?;
        // A discovery controller has no I/O queues. [DISC-CTRL-02]
        if subnqn == DISCOVERY_NQN {
            return Err(in_sqe("qid"));
        }
        let key = self.association_of(&subnqn, &hostnqn, data)?;
        let port = self.links.get(&from).map(|l| l.port);
        let Some(c) = self.controllers.get_mut(&key) else { return Err(in_data("cntlid")) };
        // Another port than the association's. [FAB-CONNECT-33]
        if port != Some(c.port) {
            return Err(in_data("cntlid"));
        }
        // [FAB-CONNECT-21]
        if !c.serving() {
            return Err(in_sqe("qid"));
        }
        // [FAB-CONNECT-06, FAB-QUEUE-16]
        if sqe.qid().0 > self.settings.io_queues {
            return Err(in_sqe("qid"));
        }
        // [FAB-CONNECT-07, FAB-CONNECT-08]
        let entries = sqe.sqsize().count();
        if entries < 2 || entries > u64::from(self.settings.io_queue_entries.max(2)) {
            return Err(in_sqe("sqsize"));
        }
        // [FAB-CONNECT-03]
        if c.queues.contains_key(&sqe.qid().0) {
            return Err(Status::COMMAND_SEQUENCE_ERROR.into());
        }
        c.queues.insert(sqe.qid().0, from);
        Ok((key, self.admitted(sqe, key)))
    }

    /// The association that an I/O Connect means, or the field that differs from it. [FAB-CONNECT-23]
    fn association_of(&self, subnqn: &str, hostnqn: &str, data: &ConnectData) -> Result<u32, Refusal> {
        let same_id = |c: &Controller| c.cntlid == data.cntlid() && c.kind == Kind::Io;
        let same_host = |c: &Controller| c.hostnqn == hostnqn && c.hostid == data.hostid();
        let Some((key, c)) = self.controllers.iter().find(|(_, c)| same_id(c) && c.subnqn == subnqn) else {
            let elsewhere = self.controllers.values().any(|c| same_id(c) && same_host(c));
            return Err(in_data(if elsewhere { "subnqn" } else { "cntlid" }));
        };
        if c.hostid != data.hostid() {
            return Err(in_data("hostid"));
        }
        if c.hostnqn != hostnqn {
            return Err(in_data("hostnqn"));
        }
        Ok(*key)
    }

    /// The controller of a new association. Dynamic controllers are asked for by FFFFh; of the static ones the host names one, or by
    /// FFFEh any that is free and not another host's. [FAB-CNTLID-03 to FAB-CNTLID-07, FAB-CNTLID-09, FAB-CNTLID-14]
    fn choose(&self, kind: Kind, subnqn: &str, hostnqn: &str, named: Cntlid) -> Result<Cntlid, Refusal> {
        let used: BTreeSet<u16> = self.controllers.values().filter(|c| c.subnqn == subnqn).map(|c| c.cntlid.0).collect();
        let (ControllerModel::Static { count }, Kind::Io) = (self.settings.controller_model, kind) else {
            if named != Cntlid::DYNAMIC {
                return Err(in_data("cntlid"));
            }
            let full = used.len() >= usize::from(self.settings.controllers);
            let free = (1..CNTLID_END).find(|id| !full && !used.contains(id));
            // [FAB-CONNECT-29]
            return free.map(Cntlid).ok_or(Status::CONTROLLER_BUSY.into());
        };
        let all = 1..=count.min(CNTLID_END - 1);
        let reserved = self.subsystems.get(subnqn).map(|s| &s.reserved);
        let allowed = |id: u16| reserved.and_then(|r| r.get(&id)).is_none_or(|host| host == hostnqn);
        match named {
            Cntlid::ANY_STATIC => {
                let mut free = all.filter(|id| allowed(*id) && !used.contains(id));
                free.next().map(Cntlid).ok_or(Status::CONTROLLER_BUSY.into())
            }
            Cntlid(id) if !all.contains(&id) => Err(in_data("cntlid")),
            // [FAB-CONNECT-28]
            Cntlid(id) if !allowed(id) => Err(Status::CONNECT_INVALID_HOST.dnr().into()),
            Cntlid(id) if used.contains(&id) => Err(Status::CONTROLLER_BUSY.into()),
            id => Ok(id),
        }
    }

    pub(super) fn enable_due(&self, now: Instant) -> Option<Instant> {
        // Never less than the two minutes of the text. [FAB-ASSOC-10, FAB-ASSOC-11]
        self.settings.enable_patience.map(|p| now + p.max(Duration::from_secs(120)))
    }

    /// What the connection of a new queue has to know.
    fn admitted(&self, sqe: &Connect, key: u32) -> Admitted {
        let c = self.controllers.get(&key);
        let admin = sqe.qid() == Qid::ADMIN;
        let ioccsz = self.settings.ioccsz.max(4);
        let in_capsule = match self.transport(c.map_or(0, |c| c.port)) {
            // Fabrics commands may fill the larger capsule on every queue. [TCP-CAPSULE-02, TCP-CAPSULE-06]
            PortTransport::Tcp if admin => ADMIN_IN_CAPSULE as usize,
            PortTransport::Tcp => ioccsz as usize * 16 - 64,
            // [RDMA-CAPS-02]
            PortTransport::Rdma(_) if admin => 0,
            PortTransport::Rdma(r) => r.data_bytes(ioccsz),
        };
        Admitted {
            cid: cid_of(sqe),
            result: 0,
            qid: sqe.qid(),
            entries: sqe.sqsize().count() as u32,
            deletable: !admin && self.settings.queue_deletion,
            io_commands: c.is_none_or(|c| c.cc.css() != 7),
            // [FAB-SQFC-04, FAB-SQFC-05]
            flow_control: !(sqe.sqfcd() && self.settings.flow_control_off),
            serving: c.is_some_and(Controller::serving),
            in_capsule,
            mdts: (self.settings.mdts != 0).then(|| 4096 << self.settings.mdts.min(32)),
            namespaces: c.and_then(|c| self.subsystems.get(&c.subnqn)).map(|s| s.table.clone()).unwrap_or_default(),
            counters: c.map(|c| c.counters.clone()).unwrap_or_default(),
        }
    }
}
