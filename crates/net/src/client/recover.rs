//! What a host does about losses: another association in the place of the lost one, commands sent anew. How often and when is the
//! engine's to say ([`Recovery`], [`Retry`]); here it is waited and done.

use nvmf_engine::host::recovery::resend_at;
use nvmf_engine::host::{Again, Association, Completion, HostError, Payload, Recovery, Retry, SubmitError, Verdict};
use nvmf_seam::{Instant, Network};
use nvmf_wire::{Cntlid, Qid, Sqe};

use super::{ClientError, HostClient, Notice};

impl<N: Network> HostClient<N> {
    /// Why the association ended, where it did.
    pub fn lost(&self) -> Option<&HostError> {
        self.failed.as_ref()
    }

    /// After a loss: connects again with the same settings, as often and with as much time between as `recovery` allows. Commands that
    /// were out are lost; whether the controller executed them is not known. [FAB-DISC-20]
    pub fn reconnect(&mut self, recovery: &mut Recovery) -> Result<(), ClientError> {
        let Some(first) = self.failed.clone() else { return Ok(()) };
        self.linger();
        let mut why = first.clone();
        loop {
            let now = self.network.now();
            let Again::At(at) = recovery.after(&why, now) else { return Err(ClientError::Host(why)) };
            self.network.sleep(at);
            match self.renew() {
                Ok(()) => {
                    recovery.succeeded();
                    self.notify(Notice::Reconnected(first));
                    return Ok(());
                }
                // The next try asks for the reason anew.
                Err(ClientError::Open(e)) => why = HostError::Open { qid: Qid::ADMIN, why: e.to_string() },
                Err(ClientError::Host(e)) => why = e,
                Err(other) => return Err(other),
            }
        }
    }

    /// Another association in the place of the old one.
    fn renew(&mut self) -> Result<(), ClientError> {
        let mut settings = self.association.settings().clone();
        if settings.cntlid == Cntlid::ANY_STATIC && self.facts().cntlid != Cntlid::default() {
            // Of a static subsystem the same controller is asked for again. [FAB-CNTLID-11]
            settings.cntlid = self.facts().cntlid;
        }
        self.close_all();
        self.association = Association::new(settings);
        self.completed.clear();
        (self.failed, self.open_error, self.ready, self.ended) = (None, None, false, false);
        let risen = self.rise();
        if let Err(ClientError::Open(e)) = &risen {
            self.failed = Some(HostError::Open { qid: Qid::ADMIN, why: e.to_string() });
        }
        risen
    }

    /// Executes a command whatever happens: after the loss of the association it is sent anew over another one, and after a status that
    /// may pass it is tried again. Both are bounded. Only for commands that may be executed twice.
    ///
    /// An I/O command is sent over the new association once the Keep Alive Timer of the old one has run out. [FAB-DISC-19, KA-06]
    pub fn persist(&mut self, recovery: &mut Recovery, qid: Qid, sqe: Sqe, payload: Payload) -> Result<Completion, ClientError> {
        let mut retry = Retry::default();
        loop {
            match self.execute(qid, sqe, payload.clone()) {
                Ok(done) => {
                    let (identify, delays, now) = (self.controller(), self.facts().retry_delays, self.network.now());
                    match retry.after(&done, &identify, delays, now) {
                        Verdict::Final => return Ok(done),
                        Verdict::Again(at) => self.rest(at)?,
                    }
                }
                Err(ClientError::Host(why)) => {
                    if !retry.after_loss() {
                        return Err(ClientError::Host(why));
                    }
                    let resend = resend_at(self.network.now(), self.facts().kato_ms);
                    self.reconnect(recovery)?;
                    if qid != Qid::ADMIN {
                        self.rest(resend)?;
                    }
                }
                // The controller is being reset.
                Err(ClientError::Submit(SubmitError::NotReady)) if !self.ready => self.rise()?,
                Err(other) => return Err(other),
            }
        }
    }

    /// Lets time go by; a loss meanwhile shows at the next command.
    fn rest(&mut self, until: Instant) -> Result<(), ClientError> {
        match self.idle(until) {
            Err(ClientError::Host(_)) | Ok(()) => Ok(()),
            Err(other) => Err(other),
        }
    }
}
