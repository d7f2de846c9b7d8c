//! A target in a thread of its own, for programs that are not asynchronous.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;

use nvmf_engine::controller::Hub;
use tokio::sync::oneshot;

use super::{Handle, Target, TargetConfig};

/// A target that runs until it is dropped.
pub struct EmbeddedTarget {
    addresses: Vec<SocketAddr>,
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EmbeddedTarget {
    /// Binds and begins to serve.
    pub fn start(config: TargetConfig) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("nvmfspec-target".into()).spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(r) => r,
                Err(e) => {
                    let _ = ready.send(Err(e));
                    return;
                }
            };
            runtime.block_on(async {
                match Target::bind(config).await {
                    Ok(target) => {
                        let _ = ready.send(Ok((target.addresses(), target.handle())));
                        let stop = async {
                            // An error means that the handle is gone, which is a reason to stop as well.
                            let _ = stopped.await;
                        };
                        target.run(stop).await;
                    }
                    Err(e) => {
                        let _ = ready.send(Err(e));
                    }
                }
            });
        })?;
        let (addresses, handle) = started.recv().map_err(|_| io::Error::other("the target's thread ended"))??;
        Ok(Self { addresses, handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Where the first listener listens.
    pub fn address(&self) -> SocketAddr {
        self.addresses.first().copied().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Where the listeners listen, in the order of the configuration.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// As [`Handle::with_hub`].
    pub fn with_hub<R>(&self, f: impl FnOnce(&mut Hub) -> R) -> R {
        self.handle.with_hub(f)
    }
}

impl Drop for EmbeddedTarget {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
