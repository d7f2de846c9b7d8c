//! What users of a host ask for often: logs, lists, structures, and many commands at once.

use std::collections::BTreeMap;

use bytes::Bytes;
use nvmf_engine::host::{Completion, DiscoveryLog, LogReader, Payload, SubmitError, command};
use nvmf_seam::Network;
use nvmf_wire::admin::Cns;
use nvmf_wire::cqe::AsyncEventResponse;
use nvmf_wire::identify::{IdentifyNamespace, read_namespace_list};
use nvmf_wire::{Cid, Nsid, Qid, Sqe};

use super::{ClientError, HostClient};

impl<N: Network> HostClient<N> {
    /// Reads the discovery log of a discovery controller. The last read clears the event of a change. [DISC-CTRL-18]
    pub fn discovery_log(&mut self) -> Result<DiscoveryLog, ClientError> {
        let mut reader = LogReader::new(self.controller().lpa_lpeds());
        loop {
            let (sqe, payload) = reader.request();
            let done = self.execute(Qid::ADMIN, sqe, payload)?;
            if let Some(log) = reader.handle(&done).map_err(ClientError::Discovery)? {
                return Ok(log);
            }
        }
    }

    /// Reads the log page that an event names with RAE 0, so that the controller tells of the next one of its kind. What the page says
    /// is given back; nothing where the event has none.
    pub fn clear_event(&mut self, event: AsyncEventResponse) -> Result<Option<Bytes>, ClientError> {
        let Some((sqe, payload)) = command::clear_event(event) else { return Ok(None) };
        let done = self.execute(Qid::ADMIN, sqe, payload)?;
        match done.status() {
            s if s.is_success() => Ok(Some(done.data.to_bytes())),
            status => Err(ClientError::Status { what: "Get Log Page for an event", status }),
        }
    }

    /// The active namespaces, ascending; lists longer than one page are read to their end.
    pub fn namespaces(&mut self) -> Result<Vec<Nsid>, ClientError> {
        let mut all: Vec<Nsid> = Vec::new();
        loop {
            let from = all.last().copied().unwrap_or(Nsid::NONE);
            let page = self.identify(Cns::ACTIVE_NAMESPACES, from, "Identify, active namespaces")?;
            let list = read_namespace_list(&page).map_err(|e| ClientError::Answer(e.to_string()))?;
            if list.iter().any(|n| *n <= from) || !list.is_sorted() {
                return Err(ClientError::Answer("the list of active namespaces does not ascend".into()));
            }
            let full = list.len() == 1024;
            all.extend(list);
            if !full {
                return Ok(all);
            }
        }
    }

    /// Identify Namespace.
    pub fn namespace(&mut self, nsid: Nsid) -> Result<IdentifyNamespace, ClientError> {
        let page = self.identify(Cns::NAMESPACE, nsid, "Identify Namespace")?;
        IdentifyNamespace::read(&page).map_err(|e| ClientError::Answer(e.to_string()))
    }

    /// Identify: 4096 bytes.
    pub fn identify(&mut self, cns: Cns, nsid: Nsid, what: &'static str) -> Result<Bytes, ClientError> {
        let done = self.execute(Qid::ADMIN, command::identify(cns, nsid), Payload::In(4096))?;
        match done.status() {
            s if s.is_success() => Ok(done.data.to_bytes()),
            status => Err(ClientError::Status { what, status }),
        }
    }

    /// Runs I/O commands over all I/O queues, as many at once as fit, and gives each completion to `each` with its command's index.
    /// Stops at the first error of the association.
    pub fn run<I>(&mut self, commands: I, mut each: impl FnMut(usize, Completion)) -> Result<(), ClientError>
    where
        I: IntoIterator<Item = (Sqe, Payload)>,
    {
        let mut commands = commands.into_iter().enumerate().peekable();
        let mut flying: BTreeMap<(Qid, Cid), usize> = BTreeMap::new();
        while commands.peek().is_some() || !flying.is_empty() {
            let queues: Vec<Qid> = self.association.io_queues().collect();
            for qid in &queues {
                while self.association.room(*qid) > 0 {
                    let Some((index, (sqe, payload))) = commands.next() else { break };
                    let cid = self.submit(*qid, sqe, payload)?;
                    flying.insert((*qid, cid), index);
                }
            }
            let Some((oldest, _)) = flying.iter().min_by_key(|(_, i)| **i).map(|(k, i)| (*k, *i)) else {
                self.check()?;
                return Err(ClientError::Submit(SubmitError::NotReady));
            };
            let first = self.wait(oldest.0, oldest.1)?;
            flying.remove(&oldest).into_iter().for_each(|i| each(i, first.clone()));
            flying.retain(|key, index| match self.completed.remove(key) {
                Some(done) => {
                    each(*index, done);
                    false
                }
                None => true,
            });
        }
        Ok(())
    }
}
