//! Properties: Property Get and Set, and what CC does: enable, controller reset, shutdown. [Base 2.0, 3.1.3, 3.6.2, 6.5, 6.6]

use nvmf_seam::Instant;
use nvmf_wire::layout::Structure;
use nvmf_wire::property::{Cap, Cc, Crto, Csts, NSSR_RESET, Property, PropertyGet, PropertySet, Vs};
use nvmf_wire::{Sqe, Status, ZeroBased16};

use super::features::Features;
use super::state::{Controller, Kind};
use super::{Hub, Reply};
use crate::message::ToConnection;
use crate::settings::ControllerSettings;

/// The revision that the controller complies with: 2.0. [FAB-PROP-16]
pub(super) const VERSION: u32 = 0x0002_0000;

/// CAP.TO and CRTO.CRWMT, in units of 500 ms: 15 s. [FAB-PROP-24, FAB-PROP-25]
const READY: u8 = 30;

fn cap(kind: Kind, settings: &ControllerSettings) -> Cap {
    let entries = u64::from(settings.io_queue_entries.max(2));
    // A discovery controller sets bit 0 of CSS alone. [FAB-PROP-17 to FAB-PROP-20, FAB-PROP-22, FAB-PROP-23]
    let nssrs = kind == Kind::Io && settings.subsystem_reset;
    Cap::new().with(|s| {
        s.nssrs(nssrs)
            .css_none(kind == Kind::Io && settings.admin_only)
            .mqes(ZeroBased16::of(entries))
            .cqr(true)
            .to(READY)
            .css_nvm(true)
            .css_sets(kind == Kind::Io)
            .crwms(true)
    })
}

/// The property's value, where it can be read. Offsets that the message-based model reserves are refused: one that "reads as 0" and
/// one that is "invalid" are the same to the text. [FAB-PROP-02, FAB-PROP-12, FAB-PROP-14, FAB-PROP-15]
fn read(c: &Controller, settings: &ControllerSettings, property: Property) -> Option<u64> {
    let four = |b: &[u8; 4]| u64::from(u32::from_le_bytes(*b));
    Some(match property {
        Property::CAP => u64::from_le_bytes(*cap(c.kind, settings).as_bytes()),
        Property::VS => four(Vs::from_bytes(VERSION.to_le_bytes()).as_bytes()),
        Property::CC => four(c.cc.as_bytes()),
        Property::CSTS => four(c.csts.as_bytes()),
        // Reserved at a discovery controller, where it reads as 0: hosts that saw CAP.CRMS look. [FAB-PROP-05, FAB-PROP-13]
        Property::CRTO if c.kind == Kind::Discovery => 0,
        // [RESET-31]
        Property::NSSR if c.kind == Kind::Io && settings.subsystem_reset => 0,
        Property::CRTO => four(Crto::new().with(|s| s.crwmt(u16::from(READY))).as_bytes()),
        _ => return None,
    })
}

impl Hub {
    pub(super) fn property_get(&self, key: u32, sqe: &Sqe) -> Reply {
        let get = PropertyGet::from_bytes(*sqe.as_bytes());
        let Some(c) = self.controllers.get(&key) else { return Status::INTERNAL_ERROR.into() };
        // Only whole properties are accessed. [FAB-PROP-04]
        let right = matches!((get.attrib(), get.ofst().size()), (0, Some(4)) | (1, Some(8)));
        match read(c, &self.settings, get.ofst()) {
            // [FAB-PROP-09]
            Some(value) if right => Reply::ok(value),
            _ => Status::INVALID_FIELD_IN_COMMAND.dnr().into(),
        }
    }

    pub(super) fn property_set(&mut self, now: Instant, key: u32, sqe: &Sqe) -> Reply {
        let set = PropertySet::from_bytes(*sqe.as_bytes());
        if set.attrib() == 0
            && let Some(reply) = self.subsystem_property(key, set.ofst(), set.value() as u32)
        {
            return reply;
        }
        // The others are read-only, reserved or not implemented. [FAB-PROP-03]
        if set.ofst() != Property::CC || set.attrib() != 0 {
            return Status::INVALID_FIELD_IN_COMMAND.dnr().into();
        }
        let value = Cc::from_bytes((set.value() as u32).to_le_bytes());
        let Some(c) = self.controllers.get(&key) else { return Status::INTERNAL_ERROR.into() };
        if !settable(c, &value, &self.settings) {
            return Status::INVALID_FIELD_IN_COMMAND.dnr().into();
        }
        self.configure(now, key, value);
        // [FAB-PROP-10]
        Reply::ok(0)
    }

    /// What an NVM Subsystem Reset makes writable: NSSR, and CSTS.NSSRO, which a 1 clears. [RESET-31, FAB-PROP-33]
    fn subsystem_property(&mut self, key: u32, property: Property, value: u32) -> Option<Reply> {
        let c = self.controllers.get_mut(&key).filter(|c| c.kind == Kind::Io && self.settings.subsystem_reset)?;
        match property {
            Property::NSSR if value == NSSR_RESET => self.resetting = Some(c.subnqn.clone()),
            Property::NSSR => {}
            Property::CSTS if Csts::from_bytes(value.to_le_bytes()).nssro() => {
                c.csts.set().nssro(false);
            }
            _ => return None,
        }
        Some(Reply::ok(0))
    }

    fn configure(&mut self, now: Instant, key: u32, value: Cc) {
        let enable_due = self.enable_due(now);
        let Some(c) = self.controllers.get_mut(&key) else { return };
        let was = c.serving();
        let old = c.cc;
        if old.en() && !value.en() {
            self.reset(now, key, enable_due);
            // Shutdown and reset in one: the shutdown is reported as complete. [RESET-25]
            if let Some(c) = self.controllers.get_mut(&key)
                && value.shn() != 0
            {
                c.csts.set().shst(2);
            }
            return;
        }
        c.cc = known(value);
        if c.kind == Kind::Discovery {
            // It has no I/O queues. [FAB-PROP-29, RESET-14]
            c.cc.set().iosqes(0).iocqes(0);
        }
        if old.en() {
            // These select what EN switched on; to change them now has no defined effect, and has none here. [Base 2.0, 3.1.3.5]
            c.cc.set().css(old.css()).mps(old.mps()).ams(old.ams());
        }
        if value.en() && !old.en() {
            // Nothing has to be waited for, and a shutdown that came with the reset is over. [FAB-INIT-08, RESET-02, RESET-25]
            c.csts.set().rdy(true).shst(0);
            c.enable_due = None;
        }
        if value.shn() != 0 && c.csts.shst() == 0 {
            // There is nothing to be written back: complete at once; connections are left to the host. [RESET-20, FAB-INIT-19]
            c.csts.set().shst(2);
        }
        if c.serving() != was {
            let on = !was;
            c.restart_keep_alive(now);
            for connection in c.queues.values().chain([&c.admin]) {
                self.out.push_back((*connection, ToConnection::Serving(on)));
            }
        }
    }

    /// CC.EN went from 1 to 0: a Controller Reset. The association and the Admin Queue stay, the rest starts anew.
    /// [FAB-INIT-11 to FAB-INIT-13, RESET-08, RESET-09, FAB-ASSOC-11]
    fn reset(&mut self, now: Instant, key: u32, enable_due: Option<Instant>) {
        let Some(c) = self.controllers.get_mut(&key) else { return };
        c.cc = Cc::new();
        c.csts = Csts::new().with(|s| s.nssro(c.csts.nssro()));
        c.ana_base = self.subsystems.get(&c.subnqn).map_or(0, |s| s.ana_changes);
        c.keep_alive_due = None;
        c.enable_due = enable_due;
        c.requests.clear();
        c.raised.clear();
        c.masked.clear();
        c.changed.clear();
        c.aborts.clear();
        // [ADM-LOG-23]
        c.errors.clear();
        // The Keep Alive Timeout and the Host Identifier come with Connect. [ADM-FEAT-16]
        let saved = std::mem::take(&mut c.features.saved);
        c.features = Features::new(now, c.kind, c.features.connect_kato, self.settings.kas, saved);
        c.hot = c.kind == Kind::Io && c.features.beyond(self.temperature);
        for connection in std::mem::take(&mut c.queues).into_values() {
            if let Some(link) = self.links.get_mut(&connection) {
                link.controller = None;
            }
            self.out.push_back((connection, ToConnection::Close));
        }
        self.out.push_back((c.admin, ToConnection::Reset));
    }
}

/// True where CC can take the value. A value that is refused changes nothing. [FAB-CMD-13]
fn settable(c: &Controller, value: &Cc, settings: &ControllerSettings) -> bool {
    if value.shn() == 3 {
        return false;
    }
    if !value.en() {
        return true;
    }
    if c.cc.en() {
        return true;
    }
    if c.kind == Kind::Discovery {
        // [FAB-PROP-23; queue entry sizes are reserved: FAB-PROP-29]
        return matches!(value.css(), 0 | 7) && value.mps() == 0 && value.ams() == 0;
    }
    (matches!(value.css(), 0 | 6) || value.css() == 7 && settings.admin_only)
        && value.mps() == 0
        && value.ams() == 0
        && matches!(value.iosqes(), 0 | 6)
        && matches!(value.iocqes(), 0 | 4)
}

/// Reserved bits read as 0, and CRIME is read-only 0 without CAP.CRMS 11b. [FAB-PROP-05, FAB-PROP-32, RESET-16]
fn known(value: Cc) -> Cc {
    let mut b = *value.as_bytes();
    for (b, reserved) in b.iter_mut().zip(Cc::LAYOUT.reserved_mask()) {
        *b &= !reserved;
    }
    Cc::from_bytes(b).with(|s| s.crime(false))
}
