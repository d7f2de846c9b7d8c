//! What a user asks of an association: commands, aborts, fused pairs, queues, a controller reset, the end.

use nvmf_seam::Instant;
use nvmf_wire::{Cid, Opcode, Qid, Sqe, Status};

use super::association::{Association, Event, Own, Phase};
use super::bringup::{LINGER, Step};
use super::command;
use super::connection::{Connection, Payload, SubmitError};
use super::service::KeepAlive;

/// Places of the Admin Queue that users leave free: for Keep Alive, and for a reset, a shutdown or a look at CSTS.
const RESERVE: usize = 2;

impl Association {
    /// Submits a command on a queue of a ready association; its end comes as [`Event::Completed`] with the CID returned.
    ///
    /// CID, PSDT and SGL1 of `sqe` are filled in. Two places of the Admin Queue stay free for the association itself, and no more than
    /// ACL + 1 Aborts are outstanding. [ADM-ABORT-05]
    pub fn submit(&mut self, qid: Qid, sqe: Sqe, payload: Payload, now: Instant) -> Result<Cid, SubmitError> {
        let until = now + self.settings.command_patience;
        if qid == Qid::ADMIN && sqe.opc() == Opcode::ABORT && self.aborts() >= self.abort_limit() {
            return Err(SubmitError::Full);
        }
        let cid = self.queue(qid, 1)?.submit(sqe, payload, Some(until))?;
        self.look_at(qid, &sqe, now);
        Ok(cid)
    }

    /// Submits two commands of an I/O queue as a fused pair, such as Compare and Write. [NVM-FUSED-02, FAB-TRANS-16]
    pub fn submit_fused(
        &mut self,
        qid: Qid,
        first: (Sqe, Payload),
        second: (Sqe, Payload),
        now: Instant,
    ) -> Result<(Cid, Cid), SubmitError> {
        let until = now + self.settings.command_patience;
        if qid == Qid::ADMIN || !self.facts.identify.as_ref().is_some_and(|i| i.fuses()) {
            return Err(SubmitError::Unsupported);
        }
        let cids = self.queue(qid, 2)?.submit_fused(first, second, Some(until))?;
        self.keep_alive.other_command(now);
        Ok(cids)
    }

    /// Asks the controller to abort a command; the Abort's own end comes as [`Event::Completed`] of the Admin Queue, with bit 0 of
    /// DW0 set where nothing was aborted. Both halves of a fused pair are aborted one by one. [ADM-ABORT-06, ADM-ABORT-08]
    pub fn abort(&mut self, qid: Qid, cid: Cid, now: Instant) -> Result<Cid, SubmitError> {
        if !self.queues.get(&qid).is_some_and(|q| q.has(cid)) {
            return Err(SubmitError::Unknown);
        }
        self.submit(Qid::ADMIN, command::abort(qid, cid), Payload::None, now)
    }

    /// An Asynchronous Event Request that is outstanding; once it is aborted no other takes its place.
    pub fn an_event_request(&self) -> Option<Cid> {
        self.own.iter().find(|(_, own)| **own == Own::AsyncEvent).map(|((_, cid), _)| *cid)
    }

    /// Commands that [`Self::submit`] takes now on a queue.
    pub fn room(&self, qid: Qid) -> usize {
        match self.queues.get(&qid) {
            Some(q) if self.takes(qid) => q.room().saturating_sub(if qid == Qid::ADMIN { RESERVE } else { 0 }),
            _ => 0,
        }
    }

    /// True where a user's command may go to this queue.
    fn takes(&self, qid: Qid) -> bool {
        self.phase == Phase::Ready && !self.leaving.contains_key(&qid)
    }

    fn queue(&mut self, qid: Qid, places: usize) -> Result<&mut Connection, SubmitError> {
        if !self.takes(qid) {
            return Err(SubmitError::NotReady);
        }
        let reserve = if qid == Qid::ADMIN { RESERVE } else { 0 };
        let q = self.queues.get_mut(&qid).ok_or(SubmitError::NotReady)?;
        if q.room() < places + reserve { Err(SubmitError::Full) } else { Ok(q) }
    }

    fn aborts(&self) -> u64 {
        self.queues.get(&Qid::ADMIN).map_or(0, |q| q.count(Opcode::ABORT)) as u64
    }

    fn abort_limit(&self) -> u64 {
        self.facts.identify.as_ref().map_or(1, |i| i.acl().count())
    }

    /// Resets the controller: CC.EN to 0, CSTS.RDY 0 waited for, I/O queues closed, then the way up again to [`Event::Ready`]. Commands
    /// that were out end here. False where the association is not ready. [RESET-05, RESET-11, FAB-INIT-09, FAB-INIT-14]
    pub fn reset(&mut self, now: Instant) -> bool {
        if self.phase != Phase::Ready {
            return false;
        }
        self.start_reset(now);
        self.pump(now);
        true
    }

    pub(super) fn start_reset(&mut self, now: Instant) {
        self.phase = Phase::Resetting;
        self.keep_alive = KeepAlive::default();
        self.begin(Step::Disable, now);
    }

    /// CSTS.RDY is 0: the controller has no I/O queues and no commands any more. [RESET-08, FAB-INIT-11, FAB-INIT-13]
    pub(super) fn was_reset(&mut self, now: Instant) {
        for (qid, q) in &mut self.queues {
            if *qid == Qid::ADMIN { q.forget() } else { q.close(false) }
        }
        self.unread.clear();
        self.leaving.clear();
        self.facts.io_queues = 0;
        self.facts.identify = None;
        self.lingers = Some(now + LINGER);
        // What ended is told before what comes, and the closed queues are out of the table before new ones are opened.
        self.pump(now);
        if self.phase == Phase::Resetting {
            self.phase = Phase::Rising;
            self.begin(Step::Enable, now);
        }
    }

    /// Deletes an I/O queue: its commands finish, Disconnect is the last one, its answer closes the connection, and
    /// [`Event::QueueDeleted`] tells. [FAB-DISC-07, FAB-DISC-08, FAB-DISC-11, FAB-DISC-22]
    pub fn delete_queue(&mut self, qid: Qid, now: Instant) -> Result<(), SubmitError> {
        if qid == Qid::ADMIN || !self.facts.deletes_queues(&self.settings) {
            return Err(SubmitError::Unsupported);
        }
        if !self.takes(qid) || !self.queues.contains_key(&qid) {
            return Err(SubmitError::NotReady);
        }
        self.leaving.insert(qid, false);
        self.pump(now);
        Ok(())
    }

    /// Connects an I/O queue that was deleted or lost; [`Event::QueueCreated`] tells. [FAB-DISC-21]
    pub fn create_queue(&mut self, qid: Qid) -> Result<(), SubmitError> {
        if self.phase != Phase::Ready || self.queues.contains_key(&qid) || qid == Qid::ADMIN || qid.0 > self.facts.io_queues {
            return Err(SubmitError::NotReady);
        }
        self.events.push_back(Event::Open(qid));
        Ok(())
    }

    /// Sends Disconnect on the queues to be deleted that are idle.
    pub(super) fn disconnect_idle(&mut self, now: Instant) {
        let until = now + self.settings.command_patience;
        for (qid, sent) in &mut self.leaving {
            let Some(q) = self.queues.get_mut(qid).filter(|q| !*sent && q.outstanding() == 0) else { continue };
            if let Ok(cid) = q.submit(command::disconnect(), Payload::None, Some(until)) {
                self.own.insert((*qid, cid), Own::Disconnect);
                *sent = true;
            }
        }
    }

    pub(super) fn disconnected(&mut self, qid: Qid, status: Status) {
        if status.is_success() {
            self.queues.get_mut(&qid).into_iter().for_each(|q| q.close(false));
        } else {
            self.leaving.remove(&qid);
            self.events.push_back(Event::QueueDeleted(qid, Some(status)));
        }
    }

    /// Ends the association in order: the user's commands finish, CC.SHN is set, SHST waited for, the connections closed; then comes
    /// [`Event::Ended`]. During bring-up the connections are closed at once. [RESET-26, RESET-27, FAB-INIT-17]
    pub fn shutdown(&mut self, now: Instant) {
        match self.phase {
            Phase::Ready => {
                self.phase = Phase::Draining { until: now + self.settings.command_patience };
                self.pump(now);
            }
            Phase::Rising | Phase::Resetting => self.end(now),
            _ => {}
        }
    }

    /// The same without waiting for commands: CC.SHN is set to 10b. [FAB-INIT-17]
    pub fn shutdown_abruptly(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Ready | Phase::Draining { .. }) {
            self.begin(Step::NotifyAbrupt, now);
            self.pump(now);
        } else {
            self.shutdown(now);
        }
    }
}
