//! What watching told of one controller: the facts of an association, shared by the rules of all its connections.
//!
//! Everything here was said by one of the two on the wire. Where a change is under way, or may have been missed, the fact is
//! unknown, and rules that hang on it are silent.

use std::collections::{BTreeMap, BTreeSet};

use nvmf_wire::admin::{Feature, GetFeatures, SetFeatures};
use nvmf_wire::connect::ConnectData;
use nvmf_wire::identify::{ControllerType, IdentifyController, IdentifyControllerNvm, LbaFormat};
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::property::{Cap, Cc, Csts, Property, PropertyGet, PropertySet};
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::{Cntlid, Cqe, IdentifyNamespace, Opcode, Qid, Sqe};

/// Namespaces, and features, that are remembered for one controller.
const MOST: usize = 1024;

/// Host and subsystem of an association, as Connect named them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Who {
    pub hostid: [u8; 16],
    pub hostnqn: String,
    pub subnqn: String,
    /// Controller ID that Connect asked for.
    pub asked: Cntlid,
    /// Controller ID of the response.
    pub cntlid: Cntlid,
}

impl Who {
    pub fn of(data: &ConnectData) -> Self {
        Self {
            hostid: data.hostid(),
            hostnqn: data.hostnqn().as_str().to_owned(),
            subnqn: data.subnqn().as_str().to_owned(),
            asked: data.cntlid(),
            cntlid: data.cntlid(),
        }
    }
}

/// CC.EN as both sides know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Enable {
    /// Not seen, or a change is not answered yet.
    #[default]
    Unknown,
    Off,
    On,
}

/// A namespace as Identify gave it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    pub nsze: u64,
    /// Bytes of data a block, without metadata.
    pub block: u64,
    pub eui64: [u8; 8],
    pub nguid: [u8; 16],
    pub deallocate_error: bool,
    pub write_protected: bool,
    /// Most source ranges of Copy.
    pub ranges: u64,
    pub group: u32,
    /// Write Zeroes may deallocate.
    pub wzds: bool,
}

/// Counters of the SMART log, and how many commands were completed by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub reads: u64,
    pub writes: u64,
    pub io_done: (u64, u64),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The connection of the Admin Queue stands.
    pub open: bool,
    /// It can be found by its name; see `controllers`.
    pub named: bool,
    pub who: Option<Who>,
    /// When the association began, nanoseconds.
    pub since_ns: u64,
    /// KATO of Connect, ms.
    pub kato: u32,
    pub cap: Option<Cap>,
    pub vs: Option<u32>,
    /// CC as it was last written or read.
    pub cc: Option<Cc>,
    pub enable: Enable,
    /// When the last change of CC.EN was answered, nanoseconds.
    pub turned_ns: Option<u64>,
    /// A shutdown was started and no reset came after it.
    pub shut: bool,
    /// CSTS as the host last read it since it last wrote CC.
    pub csts: Option<Csts>,
    /// The host saw CSTS.RDY since it last set or cleared CC.EN.
    pub ready: bool,
    pub identify: Option<Box<IdentifyController>>,
    pub spaces: BTreeMap<u32, Space>,
    /// Host Behavior Support was set, so that ACRE may be on.
    pub behavior: bool,
    /// DW0 of features: (FID, SEL) of Get Features, (FID, 0) of a Set Features as well.
    pub features: BTreeMap<(u8, u8), u32>,
    /// Features that were set since the association or the last reset.
    pub set: BTreeSet<u8>,
    /// Features set with SV.
    pub saved: BTreeSet<u8>,
    /// I/O queues that stand, by their QID, and those that stood.
    pub queues: BTreeMap<u16, bool>,
    /// NUMREC of the discovery log's header, as last read.
    pub records: Option<u64>,
    /// Reads and Writes that were completed on the I/O queues seen.
    pub io_done: (u64, u64),
    /// The SMART log of the controller, as last read.
    pub smart: Option<Counted>,
    /// Its count of error log entries.
    pub smart_errors: Option<u64>,
    /// Controller resets of this association.
    pub resets: u32,
    /// When the host was last heard of on any queue, and by a Keep Alive, nanoseconds.
    pub heard_ns: Option<u64>,
    pub alive_ns: Option<u64>,
    /// What CNS 06h says of the NVM command set.
    pub nvm: Option<IdentifyControllerNvm>,
    /// First bytes of Host Behavior Support, as last set.
    pub behavior_data: Option<[u8; 4]>,
    /// When CC was last written, nanoseconds.
    pub wrote_ns: u64,
    /// Newest error count of the error log.
    pub newest_error: Option<u64>,
    /// Property Sets of CC that are not answered, by CID.
    changing: BTreeMap<u16, Cc>,
    /// Features that are being set, by CID.
    setting: BTreeMap<u16, SetFeatures>,
}

impl Known {
    /// An Admin Queue was connected.
    pub fn associated(&mut self, who: Option<Who>, kato: u32, since_ns: u64) {
        *self = Self { open: true, who, kato, since_ns, enable: Enable::Off, cc: Some(Cc::default()), ..Self::default() };
    }

    /// True where the controller is known to be one of discovery, false where it is known to be none.
    pub fn discovery(&self) -> Option<bool> {
        if self.who.as_ref().is_some_and(|w| w.subnqn == DISCOVERY_NQN) {
            return Some(true);
        }
        if !self.queues.is_empty() {
            return Some(false);
        }
        let kind = self.identify.as_ref()?.cntrltype();
        (kind != ControllerType::NOT_REPORTED).then_some(kind == ControllerType::DISCOVERY)
    }

    /// An I/O controller for certain.
    pub fn serves_io(&self) -> bool {
        !self.queues.is_empty() || self.identify.as_ref().is_some_and(|i| i.cntrltype() == ControllerType::IO)
    }

    /// The controller was made for this association, so that nothing is left from an earlier one. [FAB-CNTLID-12]
    pub fn dynamic(&self) -> bool {
        self.who.as_ref().is_some_and(|w| w.asked == Cntlid::DYNAMIC)
    }

    /// Revision as VS or Identify give it, at least this one.
    pub fn since(&self, revision: u32) -> bool {
        self.revision().is_some_and(|r| r >= revision)
    }

    /// Revision at most this one.
    pub fn until(&self, revision: u32) -> bool {
        self.revision().is_some_and(|r| r > 0 && r <= revision)
    }

    fn revision(&self) -> Option<u32> {
        self.vs.or(self.identify.as_ref().map(|i| i.ver()).filter(|v| *v != 0))
    }

    /// Serves admin and I/O commands: enabled, the host saw it ready, and no shutdown was asked for.
    pub fn serving(&self) -> bool {
        self.enable == Enable::On && self.ready && !self.shut
    }

    /// Most bytes that a command may move; `None` where there is no limit or it is not known.
    pub fn mdts(&self) -> Option<u64> {
        let (i, cap) = (self.identify.as_ref()?, self.cap?);
        let shift = u32::from(i.mdts()) + 12 + u32::from(cap.mpsmin());
        (i.mdts() != 0).then(|| 1u64.checked_shl(shift)).flatten()
    }

    /// Notes what the host asks for.
    pub fn command(&mut self, sqe: &Sqe) {
        match (sqe.fctype(), sqe.opc()) {
            (Some(FabricsType::PROPERTY_SET), _) => {
                let set = PropertySet::from_bytes(*sqe.as_bytes());
                let cc = Cc::read(&set.value().to_le_bytes()).unwrap_or_default();
                if set.ofst() == Property::CC && set.attrib() == 0 {
                    let same = self.cc.is_some_and(|c| c.en() == cc.en());
                    if !same {
                        self.enable = Enable::Unknown;
                    }
                    self.ready &= cc.en() && same;
                    self.csts = None;
                    self.changing.insert(sqe.cid().0, cc);
                }
            }
            (None, Opcode::SET_FEATURES) => {
                let set = SetFeatures::from_bytes(*sqe.as_bytes());
                self.features.remove(&(set.fid().0, 0));
                self.behavior |= set.fid() == Feature::HOST_BEHAVIOR;
                self.setting.insert(sqe.cid().0, set);
            }
            (None, Opcode::FORMAT_NVM | Opcode::NAMESPACE_MANAGEMENT | Opcode::NAMESPACE_ATTACHMENT | Opcode::SANITIZE) => {
                self.spaces.clear();
            }
            _ => {}
        }
    }

    /// Notes what the controller answered to a command of the Admin Queue.
    pub fn answer(&mut self, sqe: &Sqe, cqe: &Cqe, now_ns: u64) {
        let success = cqe.status().is_success();
        match (sqe.fctype(), sqe.opc()) {
            (Some(FabricsType::PROPERTY_SET), _) => {
                if let Some(cc) = self.changing.remove(&sqe.cid().0).filter(|_| success) {
                    self.wrote(cc, now_ns);
                }
            }
            (Some(FabricsType::PROPERTY_GET), _) if success => self.read(&PropertyGet::from_bytes(*sqe.as_bytes()), cqe),
            (None, Opcode::SET_FEATURES) => {
                if let Some(set) = self.setting.remove(&sqe.cid().0).filter(|_| success) {
                    let all = self.setting.is_empty() && self.features.len() < MOST && sqe.nsid().0 == 0;
                    let value = if set.fid() == Feature::NUMBER_OF_QUEUES { cqe.dw0() } else { set.value() };
                    if all {
                        self.features.insert((set.fid().0, 0), value);
                    }
                    self.set.insert(set.fid().0);
                    if set.sv() {
                        self.saved.insert(set.fid().0);
                    }
                }
            }
            (None, Opcode::GET_FEATURES) if success => {
                let get = GetFeatures::from_bytes(*sqe.as_bytes());
                let current = get.sel() == 0 && (get.fid() == Feature::ERROR_RECOVERY || !self.setting.is_empty());
                if sqe.nsid().0 == 0 && get.value() == 0 && !current && self.features.len() < MOST {
                    self.features.insert((get.fid().0, get.sel()), cqe.dw0());
                }
            }
            _ => {}
        }
    }

    fn wrote(&mut self, cc: Cc, now_ns: u64) {
        let was = self.cc.map(|c| c.en());
        if was != Some(cc.en()) || self.turned_ns.is_none() {
            self.turned_ns = Some(now_ns);
        }
        if was == Some(true) && !cc.en() {
            self.reset();
        }
        if self.changing.is_empty() {
            self.enable = if cc.en() { Enable::On } else { Enable::Off };
        }
        // A write that clears EN resets CC as a whole; what else it held is undefined afterwards.
        self.cc = Some(if cc.en() { cc } else { Cc::default() });
        // Only a change of EN ends a shutdown. [FAB-INIT-22]
        self.shut = cc.shn() != 0 || self.shut && was == Some(cc.en());
    }

    /// A controller reset: what belongs to it is as after Connect. [RESET-08, RESET-09, ADM-FEAT-16]
    fn reset(&mut self) {
        self.resets = self.resets.saturating_add(1);
        self.smart = None;
        self.features.retain(|(_, sel), _| *sel != 0);
        self.set.clear();
        self.behavior = false;
        self.behavior_data = None;
        for stands in self.queues.values_mut() {
            *stands = false;
        }
    }

    fn read(&mut self, get: &PropertyGet, cqe: &Cqe) {
        let value = u64::from(cqe.dw0()) | u64::from(cqe.dw1()) << 32;
        match (get.ofst(), get.attrib()) {
            (Property::CAP, 1) => self.cap = Cap::read(&value.to_le_bytes()).ok(),
            (Property::VS, 0) => self.vs = Some(cqe.dw0()),
            (Property::CSTS, 0) => {
                let csts = Csts::read(&value.to_le_bytes()).unwrap_or_default();
                self.csts = Some(csts);
                self.ready = csts.rdy();
            }
            _ => {}
        }
    }

    /// Notes data that Identify brought for a namespace.
    pub fn space(&mut self, nsid: u32, data: &IdentifyNamespace) {
        let index = usize::from(data.flbas_low()) | usize::from(data.flbas_high()) << 4;
        let format = data.as_bytes().get(128 + 4 * index..).and_then(|b| LbaFormat::read(b).ok()).unwrap_or_default();
        let block = 1u64.checked_shl(u32::from(format.lbads())).unwrap_or(0);
        if data.nsze() == 0 || self.spaces.len() >= MOST && !self.spaces.contains_key(&nsid) {
            self.spaces.remove(&nsid);
            return;
        }
        let space = Space {
            nsze: data.nsze(),
            block,
            eui64: data.eui64(),
            nguid: data.nguid(),
            deallocate_error: data.nsfeat_dae(),
            write_protected: data.nsattr_wp(),
            ranges: data.msrc().count(),
            group: data.anagrpid(),
            wzds: data.dlfeat_wzds(),
        };
        self.spaces.insert(nsid, space);
    }

    /// A queue was connected, or its connection ended.
    pub fn queue(&mut self, qid: Qid, stands: bool) {
        self.queues.insert(qid.0, stands);
    }
}
