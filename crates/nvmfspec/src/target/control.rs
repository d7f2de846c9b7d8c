//! `--control`: a Unix socket whose lines change what the target serves. The commands are listed in [`crate::control`].

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nvmf_engine::controller::{AssociationInfo, ConfigError, SubsystemInfo};
use nvmf_net::target::Handle;
use nvmf_wire::log::AnaState;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};

use super::namespace::Namespace;
use crate::control::LINE_MAX;

/// Most clients at a time; further ones wait to be accepted.
const CLIENTS: usize = 8;

/// A socket that takes commands, and the file that it leaves behind no longer than it lives.
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    desk: Arc<Desk>,
}

/// What the commands act on.
struct Desk {
    target: Handle,
    /// The subsystem of commands that name none.
    nqn: String,
    quit: Notify,
}

impl Control {
    /// Listens at `path`, for this user alone. A socket there that nobody listens to is replaced.
    pub fn bind(path: &Path, target: Handle, nqn: &str) -> io::Result<Self> {
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is no socket"));
            }
            Ok(_) if BlockingStream::connect(path).is_ok() => {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another target listens there"));
            }
            Ok(_) => fs::remove_file(path)?,
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let desk = Arc::new(Desk { target, nqn: nqn.to_owned(), quit: Notify::new() });
        Ok(Self { listener, path: path.to_owned(), desk })
    }

    /// Serves until somebody says `quit`.
    pub async fn run(self) {
        let places = Arc::new(Semaphore::new(CLIENTS));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                () = self.desk.quit.notified() => return,
                accepted = self.listener.accept() => accepted,
            };
            if let Ok((stream, _)) = accepted {
                let desk = self.desk.clone();
                tokio::spawn(async move {
                    // A client that is gone misses its answer.
                    let _ = desk.serve(stream).await;
                    drop(place);
                });
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Desk {
    async fn serve(self: Arc<Self>, stream: UnixStream) -> io::Result<()> {
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        loop {
            let mut line = Vec::new();
            (&mut read).take(LINE_MAX as u64).read_until(b'\n', &mut line).await?;
            if line.is_empty() {
                return Ok(());
            }
            if line.last() != Some(&b'\n') && line.len() >= LINE_MAX {
                let message = format!("error: a line has at most {LINE_MAX} bytes\n");
                return write.write_all(message.as_bytes()).await;
            }
            // A store in a file may block.
            let desk = self.clone();
            let answer = tokio::task::spawn_blocking(move || desk.answer(&line)).await.map_err(io::Error::other)?;
            let (text, quit) = match answer {
                Ok(Done::Said(text)) if text.is_empty() => ("ok\n".to_owned(), false),
                Ok(Done::Said(text)) => (format!("ok {text}\n"), false),
                Ok(Done::Quit) => ("ok\n".to_owned(), true),
                Err(why) => (format!("error: {why}\n"), false),
            };
            write.write_all(text.as_bytes()).await?;
            if quit {
                self.quit.notify_one();
            }
        }
    }

    /// Does the command of a line. An error is a message of one line.
    fn answer(&self, line: &[u8]) -> Result<Done, String> {
        let line = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let own = self.nqn.as_str();
        match words.as_slice() {
            ["namespace", "add", store] => self.add_namespace(own, store),
            ["namespace", "add", store, nqn] => self.add_namespace(nqn, store),
            ["namespace", "remove", nsid] => self.remove_namespace(own, nsid),
            ["namespace", "remove", nsid, nqn] => self.remove_namespace(nqn, nsid),
            ["subsystem", "add", nqn, stores @ ..] => self.add_subsystem(nqn, stores),
            ["subsystem", "remove", nqn] => {
                self.target.with_hub(|hub| hub.remove_subsystem(nqn)).map_err(|e| format!("subsystem {e}"))?;
                Ok(Done::Said(String::new()))
            }
            ["host", verb @ ("allow" | "deny"), host] => self.host(own, *verb == "allow", host),
            ["host", verb @ ("allow" | "deny"), host, nqn] => self.host(nqn, *verb == "allow", host),
            ["ana", "namespace", nsid, group] => self.ana_group(own, nsid, group),
            ["ana", "namespace", nsid, group, nqn] => self.ana_group(nqn, nsid, group),
            ["ana", group, state] => self.ana_state(own, group, state),
            ["ana", group, state, nqn] => self.ana_state(nqn, group, state),
            ["referral", verb @ ("add" | "remove"), to] => self.referral(*verb == "add", to),
            ["temperature", kelvins] => {
                let kelvins = kelvins.parse().map_err(|_| "a temperature is a number of kelvins from 0 to 65535")?;
                self.target.with_hub(|hub| hub.set_temperature(kelvins));
                Ok(Done::Said(String::new()))
            }
            ["list"] => Ok(Done::Said(self.list())),
            ["quit"] => Ok(Done::Quit),
            [] => Err("an empty line: a command was expected".into()),
            _ => Err("no such command, or not with these words: `nvmfspec control --help` lists them".into()),
        }
    }

    fn add_namespace(&self, nqn: &str, store: &str) -> Result<Done, String> {
        let new = open(store)?;
        let nsid = self.target.with_hub(|hub| hub.add_namespace_somewhere(nqn, new)).map_err(of_namespace)?;
        Ok(Done::Said(nsid.to_string()))
    }

    fn remove_namespace(&self, nqn: &str, nsid: &str) -> Result<Done, String> {
        let nsid = nsid.parse().map_err(|_| "an NSID is a number from 1 to 4294967294")?;
        self.target.with_hub(|hub| hub.remove_namespace(nqn, nsid)).map_err(of_namespace)?;
        Ok(Done::Said(String::new()))
    }

    /// Appears with all its namespaces, or not at all.
    fn add_subsystem(&self, nqn: &str, stores: &[&str]) -> Result<Done, String> {
        let stores = stores.iter().map(|s| open(s)).collect::<Result<Vec<_>, String>>()?;
        self.target.with_hub(|hub| {
            hub.add_subsystem(nqn, None).map_err(|e| format!("subsystem {e}"))?;
            for new in stores {
                if let Err(e) = hub.add_namespace_somewhere(nqn, new) {
                    let _ = hub.remove_subsystem(nqn);
                    return Err(of_namespace(e));
                }
            }
            Ok(Done::Said(String::new()))
        })
    }

    fn host(&self, nqn: &str, allow: bool, host: &str) -> Result<Done, String> {
        let host = (host != "any").then_some(host);
        let done = self.target.with_hub(|hub| if allow { hub.allow_host(nqn, host) } else { hub.deny_host(nqn, host) });
        done.map(|()| Done::Said(String::new())).map_err(|e| format!("host or subsystem: {e}"))
    }

    fn ana_group(&self, nqn: &str, nsid: &str, group: &str) -> Result<Done, String> {
        let nsid = nsid.parse().map_err(|_| "an NSID is a number from 1 to 4294967294")?;
        let group = group.parse().map_err(|_| "an ANA group is a number")?;
        self.target.with_hub(|hub| hub.set_ana_group(nqn, nsid, group)).map_err(of_namespace)?;
        Ok(Done::Said(String::new()))
    }

    fn ana_state(&self, nqn: &str, group: &str, state: &str) -> Result<Done, String> {
        let group = group.parse().map_err(|_| "an ANA group is a number")?;
        let state = match state {
            "optimized" => AnaState::OPTIMIZED,
            "non-optimized" => AnaState::NON_OPTIMIZED,
            "inaccessible" => AnaState::INACCESSIBLE,
            "persistent-loss" => AnaState::PERSISTENT_LOSS,
            "change" => AnaState::CHANGE,
            _ => return Err("a state is optimized, non-optimized, inaccessible, persistent-loss or change".into()),
        };
        self.target.with_hub(|hub| hub.set_ana_state(nqn, group, state)).map_err(|e| match e {
            ConfigError::Ana => "there is no such ANA group, or it is lost for ever".into(),
            e => format!("subsystem {e}"),
        })?;
        Ok(Done::Said(String::new()))
    }

    fn referral(&self, add: bool, to: &str) -> Result<Done, String> {
        let to = to.parse().map_err(|_| "an address such as 192.0.2.1:8009 or [2001:db8::1]:8009 was expected")?;
        let done = self.target.with_hub(|hub| if add { hub.add_referral(to) } else { hub.remove_referral(to) });
        done.map(|()| Done::Said(String::new())).map_err(|e| format!("referral {e}"))
    }

    fn list(&self) -> String {
        let (subsystems, associations): (Vec<SubsystemInfo>, Vec<AssociationInfo>) =
            self.target.with_hub(|hub| (hub.subsystems().collect(), hub.association_list().collect()));
        let subsystems: Vec<_> = subsystems
            .iter()
            .map(|s| {
                let namespaces = s.namespaces.iter();
                let namespaces: Vec<_> =
                    namespaces.map(|(n, g)| json!({ "nsid": n, "blocks": g.blocks, "block_size": g.block_size })).collect();
                json!({ "nqn": s.nqn, "hosts": s.hosts, "namespaces": namespaces })
            })
            .collect();
        let associations: Vec<_> = associations
            .iter()
            .map(|a| json!({ "cntlid": a.cntlid.0, "subnqn": a.subnqn, "hostnqn": a.hostnqn, "io_queues": a.io_queues }))
            .collect();
        json!({ "subsystems": subsystems, "associations": associations }).to_string()
    }
}

enum Done {
    /// The text after `ok`.
    Said(String),
    Quit,
}

fn open(store: &str) -> Result<nvmf_engine::controller::NewNamespace, String> {
    let namespace: Namespace = store.parse()?;
    namespace.open().map_err(|e| format!("{namespace}: {e}"))
}

fn of_namespace(e: ConfigError) -> String {
    match e {
        ConfigError::Unknown => "there is no such namespace or subsystem".into(),
        e => e.to_string(),
    }
}
