//! What is tried again and when: an association that was lost ([`Recovery`]), a command that failed ([`Retry`]).
//!
//! Both only say so; time is an argument, and the driver waits and acts. Every number of tries is bounded. [Base 2.0, 3.3.2.4, 3.9, 4.5]

use core::time::Duration;

use nvmf_seam::Instant;
use nvmf_wire::{IdentifyController, Status};

use super::connection::Completion;
use super::error::HostError;

/// How often, and with how much time between.
#[derive(Clone, Copy, Debug)]
pub struct RecoverySettings {
    /// Tries in a row; one that brings the association up again starts the count anew.
    pub tries: u32,
    /// Time before the first try; each further one waits twice as long.
    pub first_delay: Duration,
    /// Most time between two tries.
    pub most_delay: Duration,
}

impl Default for RecoverySettings {
    fn default() -> Self {
        Self { tries: 10, first_delay: Duration::from_millis(100), most_delay: Duration::from_secs(10) }
    }
}

/// What to do about an association that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Connect again at this time.
    At(Instant),
    /// Read the discovery log again, not before this time, and connect to what it then says. [FAB-CONNECT-31]
    Discover(Instant),
    /// Trying again would give the same.
    Never,
    /// It was tried as often as allowed.
    Exhausted,
}

/// Tries of one association.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    settings: RecoverySettings,
    tried: u32,
}

impl Recovery {
    /// None was needed yet.
    pub fn new(settings: RecoverySettings) -> Self {
        Self { settings, tried: 0 }
    }

    /// The association is up again.
    pub fn succeeded(&mut self) {
        self.tried = 0;
    }

    /// Tries since it was up.
    pub fn tried(&self) -> u32 {
        self.tried
    }

    /// The association ended for this reason, or could not be brought up.
    pub fn after(&mut self, why: &HostError, now: Instant) -> Again {
        if is_final(why) {
            return Again::Never;
        }
        if self.tried >= self.settings.tries {
            return Again::Exhausted;
        }
        let factor = 1u32.checked_shl(self.tried).unwrap_or(u32::MAX);
        self.tried += 1;
        let at = now + self.settings.first_delay.saturating_mul(factor).min(self.settings.most_delay);
        let restart = Status::CONNECT_RESTART_DISCOVERY;
        if matches!(why, HostError::Refused { cqe, .. } if cqe.status().code() == restart) {
            Again::Discover(at)
        } else {
            Again::At(at)
        }
    }
}

/// When commands of an association that was lost at `lost` may be sent anew over another one: the old controller may be at them until
/// its Keep Alive Timer has run out. The transport has no timeout of its own. [FAB-DISC-19, FAB-DISC-20, KA-06]
pub fn resend_at(lost: Instant, kato_ms: u32) -> Instant {
    lost + Duration::from_millis(kato_ms.into())
}

/// Whether the same request would have the same answer.
fn is_final(why: &HostError) -> bool {
    match why {
        HostError::Refused { cqe, .. } => {
            let known = [
                Status::CONNECT_INVALID_PARAMETERS,
                Status::CONNECT_INVALID_HOST,
                Status::INCOMPATIBLE_FORMAT,
                Status::KEEP_ALIVE_TIMEOUT_INVALID,
            ];
            cqe.dnr() || known.contains(&cqe.status().code())
        }
        HostError::Command { status, .. } => status.is_dnr(),
        HostError::AuthenticationRequired | HostError::DigestsRefused(_) | HostError::Unusable(_) => true,
        _ => false,
    }
}

/// What to do about a command that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This is its end, good or bad.
    Final,
    /// Send it again, not before this time.
    Again(Instant),
}

/// Tries of one command on one controller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retry {
    tried: u32,
    transport_errors: u32,
    path_error_since: Option<Instant>,
}

/// Most tries of a command beside the first.
const TRIES: u32 = 8;
/// As many failures of the transport make a command fail for good. [CQE-23, FAB-STATUS-09]
const TRANSPORT_ERRORS: u32 = 4;
/// Time before a retry where the controller names none.
const PAUSE: Duration = Duration::from_millis(100);

impl Retry {
    /// The association was lost with the command out: whether it may be sent anew. A command that ends every association is not.
    #[must_use]
    pub fn after_loss(&mut self) -> bool {
        self.tried += 1;
        self.tried <= TRIES
    }

    /// The command ended with `done`. `delays` says that the controller was told to expect the host to wait as CRD says.
    pub fn after(&mut self, done: &Completion, controller: &IdentifyController, delays: bool, now: Instant) -> Verdict {
        let status = done.status();
        if status.is_success() || status.is_dnr() || self.tried >= TRIES {
            return Verdict::Final;
        }
        // CQE-21, FAB-STATUS-04, FAB-STATUS-05
        let crd = if delays && done.local.is_none() { done.cqe.crd() } else { 0 };
        let units = match crd {
            0 => 0,
            1 => controller.crdt1(),
            2 => controller.crdt2(),
            _ => controller.crdt3(),
        };
        let pause = if units == 0 { PAUSE } else { Duration::from_millis(100) * u32::from(units) };
        let again = match status.code() {
            Status::TRANSIENT_TRANSPORT_ERROR => {
                self.transport_errors += 1;
                self.transport_errors < TRANSPORT_ERRORS
            }
            Status::NAMESPACE_NOT_READY | Status::COMMAND_INTERRUPTED | Status::INTERNAL_ERROR => true,
            // With one path there is no other to go to: the same is tried, while groups change for at least ANATT.
            // [CQE-22, FAB-STATUS-10, ANA-20]
            Status::ASYMMETRIC_ACCESS_TRANSITION | Status::ASYMMETRIC_ACCESS_INACCESSIBLE => {
                let since = *self.path_error_since.get_or_insert(now);
                let patience = Duration::from_secs(controller.anatt().max(1).into());
                if now.since(since) <= patience {
                    return Verdict::Again(now + pause);
                }
                false
            }
            Status::INTERNAL_PATH_ERROR | Status::CONTROLLER_PATHING_ERROR | Status::HOST_PATHING_ERROR => true,
            _ => false,
        };
        self.tried += 1;
        if again { Verdict::Again(now + pause) } else { Verdict::Final }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Data;
    use nvmf_wire::{Cid, Cqe, Qid};

    fn done(status: Status) -> Completion {
        Completion { cid: Cid(0), cqe: Cqe::of(Cid(0), status, 0), local: None, data: Data::default(), memory: None }
    }

    #[test]
    fn a_lost_association_is_tried_again_with_growing_delays_and_not_for_ever() {
        let mut r =
            Recovery::new(RecoverySettings { tries: 4, first_delay: Duration::from_secs(1), most_delay: Duration::from_secs(3) });
        let why = HostError::Lost { qid: Qid(1), reset: true, during: "operation" };
        let all: Vec<Again> = (0..5).map(|_| r.after(&why, Instant(7))).collect();
        let at = |s| Again::At(Instant(7) + Duration::from_secs(s));
        assert_eq!(all, [at(1), at(2), at(3), at(3), Again::Exhausted]);
        r.succeeded();
        assert_eq!(r.after(&why, Instant(7)), at(1));
    }

    #[test]
    fn what_would_be_the_same_again_is_not_tried() {
        let mut r = Recovery::new(RecoverySettings::default());
        let refused = |status: Status| HostError::Refused { qid: Qid::ADMIN, cqe: Cqe::of(Cid(0), status, 0) };
        for status in [Status::CONNECT_INVALID_PARAMETERS, Status::CONNECT_INVALID_HOST, Status::CONTROLLER_BUSY.dnr()] {
            assert_eq!(r.after(&refused(status), Instant(0)), Again::Never, "{status}");
        }
        assert_eq!(r.after(&HostError::AuthenticationRequired, Instant(0)), Again::Never);
        assert!(matches!(r.after(&refused(Status::CONTROLLER_BUSY), Instant(0)), Again::At(_)));
        // FAB-CONNECT-31
        assert!(matches!(r.after(&refused(Status::CONNECT_RESTART_DISCOVERY), Instant(0)), Again::Discover(_)));
    }

    #[test]
    fn four_transport_errors_are_the_end_of_a_command() {
        let (mut r, c) = (Retry::default(), IdentifyController::new());
        for _ in 0..3 {
            assert!(matches!(r.after(&done(Status::TRANSIENT_TRANSPORT_ERROR), &c, false, Instant(0)), Verdict::Again(_)));
        }
        assert_eq!(r.after(&done(Status::TRANSIENT_TRANSPORT_ERROR), &c, false, Instant(0)), Verdict::Final);
        for status in [Status::SUCCESS, Status::LBA_OUT_OF_RANGE, Status::TRANSIENT_TRANSPORT_ERROR.dnr()] {
            assert_eq!(Retry::default().after(&done(status), &c, false, Instant(0)), Verdict::Final, "{status}");
        }
    }

    #[test]
    fn a_command_that_ends_every_association_is_given_up() {
        let mut r = Retry::default();
        assert_eq!((0..20).filter(|_| r.after_loss()).count(), TRIES as usize);
    }

    #[test]
    fn crd_counts_where_the_host_said_that_it_waits() {
        let c = IdentifyController::new().with(|s| s.crdt2(30));
        let busy = |crd| {
            let mut busy = done(Status::NAMESPACE_NOT_READY);
            busy.cqe = busy.cqe.with(|s| s.crd(crd));
            busy
        };
        let wait = |delays, crd| Retry::default().after(&busy(crd), &c, delays, Instant(0));
        assert_eq!(wait(true, 2), Verdict::Again(Instant(3_000_000_000)));
        assert_eq!(wait(false, 2), Verdict::Again(Instant(0) + PAUSE));
        assert_eq!(wait(true, 1), Verdict::Again(Instant(0) + PAUSE));
    }

    #[test]
    fn a_group_that_changes_is_waited_for_as_long_as_anatt_says() {
        let c = IdentifyController::new().with(|s| s.anatt(10));
        let (mut r, mut now, mut tries) = (Retry::default(), Instant(0), 0);
        while let Verdict::Again(at) = r.after(&done(Status::ASYMMETRIC_ACCESS_TRANSITION), &c, false, now) {
            now = at;
            tries += 1;
        }
        assert_eq!((tries, now.since(Instant(0))), (101, Duration::from_millis(10_100)));
    }
}
