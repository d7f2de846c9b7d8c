//! Get Features and Set Features. [Base 2.0, 5.15 and 5.27]

use std::collections::BTreeMap;

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_wire::admin::{Feature, GetFeatures, SetFeatures};
use nvmf_wire::{Nsid, Sqe, Status};

use super::state::Kind;
use super::{Hub, Reply};

/// Default of the Keep Alive Timer feature on TCP, ms. [KA-18, ADM-FEAT-33]
const DEFAULT_KATO: u32 = 120_000;
/// Temperature thresholds by default: over at WCTEMP for the composite temperature. [ADM-FEAT-45]
pub(super) const WCTEMP: u16 = 343;
/// Bytes of Host Behavior Support.
pub(super) const HOST_BEHAVIOR_BYTES: usize = 512;
/// Bytes of Timestamp.
pub(super) const TIMESTAMP_BYTES: usize = 8;

/// The features that can be saved. [ADM-FEAT-05, ADM-FEAT-07]
#[derive(Clone, Debug, Default)]
pub(super) struct Saveable {
    arbitration: u32,
    write_atomicity: u32,
    /// Thresholds by (THSEL, TMPSEL).
    thresholds: BTreeMap<(u8, u8), u16>,
    /// Error Recovery by NSID; 0 for namespaces that have none of their own.
    recovery: BTreeMap<u32, u32>,
}

/// Current values, and those saved.
#[derive(Clone, Debug)]
pub(super) struct Features {
    /// Keep Alive Timeout in force, ms; a multiple of KAS, or 0.
    pub kato: u32,
    /// The one that came with Connect, as given.
    pub connect_kato: u32,
    /// Asynchronous Event Configuration.
    pub aec: u32,
    /// When a clock began that counted from 0.
    begin: Instant,
    /// What a host set it to, ms, and when.
    timestamp: Option<(u64, Instant)>,
    behavior: [u8; HOST_BEHAVIOR_BYTES],
    current: Saveable,
    pub saved: Saveable,
}

impl Features {
    /// The values after Connect or a controller reset: the saved ones, and defaults for the rest. [ADM-FEAT-16]
    pub fn new(now: Instant, kind: Kind, kato: u32, kas: u16, saved: Saveable) -> Self {
        // A persistent discovery connection wants to hear of changes. [DISC-CTRL-14, ADM-AER-24]
        let aec = if kind == Kind::Discovery && kato != 0 { 1 << 31 } else { 0 };
        Self {
            kato: round_up(kato, kas),
            connect_kato: kato,
            aec,
            begin: now,
            timestamp: None,
            behavior: [0; HOST_BEHAVIOR_BYTES],
            current: saved.clone(),
            saved,
        }
    }

    /// True where a composite temperature, in kelvins, has reached a threshold. [Base 2.0, 5.27.1.3]
    pub fn beyond(&self, temperature: u16) -> bool {
        temperature >= self.current.threshold((0, 0)) || temperature <= self.current.threshold((1, 0))
    }

    /// The time of the controller, ms, and whether a host set it. [ADM-FEAT-47]
    fn timestamp(&self, now: Instant) -> [u8; TIMESTAMP_BYTES] {
        let passed = |from: Instant| now.since(from).as_millis() as u64;
        let (value, origin) = match self.timestamp {
            Some((set, at)) => (set.wrapping_add(passed(at)), 1 << 1),
            None => (passed(self.begin), 0),
        };
        let mut b = value.to_le_bytes();
        (b[6], b[7]) = (origin, 0);
        b
    }
}

impl Saveable {
    fn threshold(&self, select: (u8, u8)) -> u16 {
        self.thresholds.get(&select).copied().unwrap_or(default_threshold(select))
    }

    fn recovery(&self, nsid: Nsid) -> u32 {
        self.recovery.get(&nsid.0).or(self.recovery.get(&0)).copied().unwrap_or(0)
    }

    /// Takes a value that was found to be right.
    fn set(&mut self, feature: Feature, value: u32, nsid: Nsid) {
        match feature {
            Feature::ARBITRATION => self.arbitration = value & 0xffff_ff07,
            Feature::WRITE_ATOMICITY => self.write_atomicity = value & 1,
            Feature::TEMPERATURE_THRESHOLD => {
                let Some((thsel, tmpsel)) = threshold_select(value, true) else { return };
                let all = if tmpsel == 0xf { 0..=8 } else { tmpsel..=tmpsel };
                self.thresholds.extend(all.map(|t| ((thsel, t), value as u16)));
            }
            Feature::ERROR_RECOVERY => {
                // All namespaces at once, CTRATT bit 10 being 0. [ADM-FEAT-12, ADM-FEAT-14]
                let nsid = if nsid == Nsid::BROADCAST { Nsid::NONE } else { nsid };
                if nsid == Nsid::NONE {
                    self.recovery.clear();
                }
                // DULBE needs a namespace that knows deallocated blocks; ours do not. [ADM-FEAT-53]
                self.recovery.insert(nsid.0, value & 0xffff);
            }
            _ => {}
        }
    }
}

/// Up to the granularity of KAS, which counts 100 ms. [KA-17, ADM-FEAT-31]
fn round_up(kato: u32, kas: u16) -> u32 {
    let step = u32::from(kas.max(1)) * 100;
    kato.checked_next_multiple_of(step).unwrap_or(u32::MAX / step * step)
}

/// [ADM-FEAT-45]
fn default_threshold((thsel, tmpsel): (u8, u8)) -> u16 {
    match (thsel, tmpsel) {
        (0, 0) => WCTEMP,
        (0, _) => 0xffff,
        _ => 0,
    }
}

/// THSEL and TMPSEL of CDW11, where they are not reserved. Fh means all sensors, in Set alone. [ADM-FEAT-46]
fn threshold_select(value: u32, set: bool) -> Option<(u8, u8)> {
    let (thsel, tmpsel) = ((value >> 20 & 3) as u8, (value >> 16 & 0xf) as u8);
    let known = thsel <= 1 && (tmpsel <= 8 || (set && tmpsel == 0xf));
    known.then_some((thsel, tmpsel))
}

/// The features of a controller. [ADM-FEAT-19 to ADM-FEAT-22, HOSTID-01]
pub(super) fn supported(kind: Kind, kato: u32, feature: Feature) -> bool {
    match kind {
        Kind::Discovery => kato != 0 && matches!(feature, Feature::ASYNC_EVENT_CONFIG | Feature::KEEP_ALIVE_TIMER),
        Kind::Io => matches!(
            feature,
            Feature::ARBITRATION
                | Feature::POWER_MANAGEMENT
                | Feature::TEMPERATURE_THRESHOLD
                | Feature::ERROR_RECOVERY
                | Feature::NUMBER_OF_QUEUES
                | Feature::WRITE_ATOMICITY
                | Feature::ASYNC_EVENT_CONFIG
                | Feature::TIMESTAMP
                | Feature::KEEP_ALIVE_TIMER
                | Feature::HOST_BEHAVIOR
                | PROFILE
                | Feature::HOST_IDENTIFIER
        ),
    }
}

/// I/O Command Set Profile. [Base 2.0, 5.27.1.21]
const PROFILE: Feature = Feature(0x19);

/// Supported Capabilities of SEL 011b: changeable (bit 2), namespace specific (1), saveable (0). [ADM-FEAT-05]
fn capabilities(feature: Feature) -> u64 {
    match feature {
        Feature::HOST_IDENTIFIER => 0,
        Feature::ERROR_RECOVERY => 0b111,
        _ if saveable(feature) => 0b101,
        _ => 0b100,
    }
}

fn saveable(feature: Feature) -> bool {
    matches!(feature, Feature::ARBITRATION | Feature::TEMPERATURE_THRESHOLD | Feature::ERROR_RECOVERY | Feature::WRITE_ATOMICITY)
}

/// Which value SEL asks for. Of what cannot be saved, and of what was not, the saved value is the default. [ADM-FEAT-04]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Select {
    Current,
    Default,
    Saved,
}

/// A value in DW0, where the feature has one.
fn value(f: &Features, queues: u32, feature: Feature, get: &GetFeatures, nsid: Nsid, select: Select) -> Result<u32, Status> {
    let default = Saveable::default();
    let from = match select {
        Select::Current => &f.current,
        Select::Default => &default,
        Select::Saved => &f.saved,
    };
    Ok(match feature {
        Feature::TEMPERATURE_THRESHOLD => match threshold_select(get.value(), false) {
            Some(which) => u32::from(from.threshold(which)),
            None => return Err(Status::INVALID_FIELD_IN_COMMAND.dnr()),
        },
        Feature::ARBITRATION => from.arbitration,
        Feature::WRITE_ATOMICITY => from.write_atomicity,
        Feature::ERROR_RECOVERY => from.recovery(nsid),
        // [ADM-FEAT-26 to ADM-FEAT-28]
        Feature::NUMBER_OF_QUEUES => (queues - 1) << 16 | (queues - 1),
        Feature::KEEP_ALIVE_TIMER if select == Select::Current => f.kato,
        Feature::KEEP_ALIVE_TIMER => DEFAULT_KATO,
        Feature::ASYNC_EVENT_CONFIG if select == Select::Current => f.aec,
        _ => 0,
    })
}

impl Hub {
    pub(super) fn get_features(&self, now: Instant, key: u32, sqe: &Sqe) -> Reply {
        let get = GetFeatures::from_bytes(*sqe.as_bytes());
        let Some(c) = self.controllers.get(&key) else { return Status::INTERNAL_ERROR.into() };
        let feature = get.fid();
        let invalid = Status::INVALID_FIELD_IN_COMMAND.dnr();
        // [ADM-FEAT-01, ADM-FEAT-02]
        if !supported(c.kind, c.features.connect_kato, feature) || get.sel() > 3 {
            return invalid.into();
        }
        if let Some(status) = self.wrong_namespace(key, sqe.nsid(), feature, false) {
            return status.into();
        }
        if get.sel() == 3 {
            return Reply::ok(capabilities(feature));
        }
        let select = match get.sel() {
            0 => Select::Current,
            1 => Select::Default,
            _ => Select::Saved,
        };
        let current = select == Select::Current;
        match feature {
            Feature::HOST_IDENTIFIER if get.value() & 1 == 0 => invalid.into(), // [ADM-FEAT-36]
            Feature::HOST_IDENTIFIER => Reply::data(c.hostid.to_vec()),         // [HOSTID-03, FAB-CONNECT-18]
            Feature::HOST_BEHAVIOR if current => Reply::data(c.features.behavior.to_vec()),
            Feature::HOST_BEHAVIOR => Reply::data(vec![0; HOST_BEHAVIOR_BYTES]),
            Feature::TIMESTAMP if current => Reply::data(c.features.timestamp(now).to_vec()),
            Feature::TIMESTAMP => Reply::data(vec![0; TIMESTAMP_BYTES]),
            _ => {
                let queues = u32::from(self.settings.io_queues.max(1));
                match value(&c.features, queues, feature, &get, sqe.nsid(), select) {
                    Ok(v) => Reply::ok(u64::from(v)),
                    Err(status) => status.into(),
                }
            }
        }
    }

    pub(super) fn set_features(&mut self, now: Instant, key: u32, sqe: &Sqe, data: &Bytes) -> Reply {
        let set = SetFeatures::from_bytes(*sqe.as_bytes());
        let feature = set.fid();
        let Some(c) = self.controllers.get(&key) else { return Status::INTERNAL_ERROR.into() };
        // [ADM-FEAT-01]
        if !supported(c.kind, c.features.connect_kato, feature) {
            return Status::INVALID_FIELD_IN_COMMAND.dnr().into();
        }
        // [ADM-FEAT-07]
        if set.sv() && !saveable(feature) {
            return Status::FEATURE_IDENTIFIER_NOT_SAVEABLE.dnr().into();
        }
        if let Some(status) = self.wrong_namespace(key, sqe.nsid(), feature, true) {
            return status.into();
        }
        self.apply(now, key, feature, &set, data)
    }

    fn apply(&mut self, now: Instant, key: u32, feature: Feature, set: &SetFeatures, data: &Bytes) -> Reply {
        let (queues, kas, temperature) = (u32::from(self.settings.io_queues.max(1)), self.settings.kas, self.temperature);
        let Some(c) = self.controllers.get_mut(&key) else { return Status::INTERNAL_ERROR.into() };
        let invalid: Reply = Status::INVALID_FIELD_IN_COMMAND.dnr().into();
        let v = set.value();
        match feature {
            // There is power state 0 alone. [ADM-FEAT-44]
            Feature::POWER_MANAGEMENT if v & 0x1f != 0 => return invalid,
            Feature::POWER_MANAGEMENT => {}
            Feature::TEMPERATURE_THRESHOLD if threshold_select(v, true).is_none() => return invalid,
            _ if saveable(feature) => {
                let nsid = Sqe::from_bytes(*set.as_bytes()).nsid();
                c.features.current.set(feature, v, nsid);
                if set.sv() {
                    c.features.saved.set(feature, v, nsid);
                }
                c.feel(temperature, &mut self.out);
            }
            // [ADM-FEAT-23, ADM-FEAT-25]
            Feature::NUMBER_OF_QUEUES if !c.queues.is_empty() => return Status::COMMAND_SEQUENCE_ERROR.into(),
            Feature::NUMBER_OF_QUEUES if v & 0xffff == 0xffff || v >> 16 == 0xffff => return invalid,
            Feature::NUMBER_OF_QUEUES => return Reply::ok(u64::from((queues - 1) << 16 | (queues - 1))),
            // There are no endurance groups. [ADM-FEAT-30]
            Feature::ASYNC_EVENT_CONFIG if v & 1 << 14 != 0 => return invalid,
            Feature::ASYNC_EVENT_CONFIG => c.configure_events(v, &mut self.out),
            // [KA-07, ADM-KA-07]
            Feature::KEEP_ALIVE_TIMER if v == 0 => return Status::KEEP_ALIVE_TIMEOUT_INVALID.dnr().into(),
            Feature::KEEP_ALIVE_TIMER => {
                // [KA-03, KA-17]
                c.features.kato = round_up(v, kas);
                c.restart_keep_alive(now);
            }
            Feature::TIMESTAMP => {
                let Some(new) = data.first_chunk::<TIMESTAMP_BYTES>() else { return invalid };
                // The time takes 48 bits; the attributes are the controller's.
                c.features.timestamp = Some((u64::from_le_bytes(*new) & 0xffff_ffff_ffff, now));
            }
            Feature::HOST_BEHAVIOR => {
                // Bytes 0 to 2 know 0 and 1. [ADM-FEAT-38, ADM-FEAT-39]
                let Some(new) = data.first_chunk::<HOST_BEHAVIOR_BYTES>() else { return invalid };
                if new[..3].iter().any(|b| *b > 1) {
                    return invalid;
                }
                c.features.behavior = *new;
            }
            // Combination 0 is the only one. Without CC.CSS 110b there is no effect. [ADM-FEAT-40, ADM-FEAT-41]
            PROFILE if c.cc.css() == 6 && v & 0x1ff != 0 => return Status::I_O_COMMAND_SET_COMBINATION_REJECTED.dnr().into(),
            PROFILE => {}
            // [HOSTID-02, ADM-FEAT-35]
            Feature::HOST_IDENTIFIER => return Status::COMMAND_SEQUENCE_ERROR.into(),
            _ => return invalid,
        }
        Reply::ok(0)
    }

    /// NSID rules: a controller's feature is not set for a namespace; Error Recovery is set for all at once by NSID 0 as well.
    /// [ADM-FEAT-10, ADM-FEAT-11, ADM-FEAT-13, ADM-FEAT-15]
    fn wrong_namespace(&self, key: u32, nsid: Nsid, feature: Feature, set: bool) -> Option<Status> {
        if nsid == Nsid::BROADCAST && feature == Feature::ERROR_RECOVERY && !set {
            return Some(Status::INVALID_NAMESPACE_OR_FORMAT.dnr());
        }
        if nsid == Nsid::NONE || nsid == Nsid::BROADCAST {
            return None;
        }
        let table = self.controllers.get(&key).and_then(|c| self.subsystems.get(&c.subnqn)).map(|s| &s.table);
        let valid = table.is_some_and(|t| nsid.0 <= t.nn);
        let active = table.is_some_and(|t| t.active.contains_key(&nsid.0));
        match (valid, active) {
            (false, _) => Some(Status::INVALID_NAMESPACE_OR_FORMAT.dnr()),
            (true, false) if feature == Feature::ERROR_RECOVERY => Some(Status::INVALID_FIELD_IN_COMMAND.dnr()),
            (true, _) if set && feature != Feature::ERROR_RECOVERY => Some(Status::FEATURE_NOT_NAMESPACE_SPECIFIC.dnr()),
            _ => None,
        }
    }
}
