//! Frames of a simulated network into a file, while a player has the network.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nvmf_fabric::FrameSim;

/// A file that frames are being written to.
pub struct Recording {
    path: PathBuf,
    error: Arc<Mutex<Option<io::Error>>>,
}

impl Recording {
    /// Writes what the player's link carries from now on. The error says what cannot be written.
    pub fn begin(sim: &mut FrameSim, path: &Path) -> Result<Self, String> {
        let recording = Self { path: path.into(), error: Arc::default() };
        let link = sim.edges().map(|[player, _]| player);
        let begun = File::create(path).and_then(|file| {
            let file = Watched { file: BufWriter::new(file), error: recording.error.clone() };
            sim.lan().capture(Box::new(file), link.as_slice(), 0)
        });
        begun.map(|()| recording).map_err(|e| format!("{} cannot be written: {e}", path.display()))
    }

    /// To be called once the network is gone, and the file closed by that.
    pub fn end(self) -> Result<(), String> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.map_or(Ok(()), |e| Err(format!("{} could not be written: {e}", self.path.display())))
    }
}

/// A file that tells of its first error where nobody asks it.
struct Watched {
    file: BufWriter<File>,
    error: Arc<Mutex<Option<io::Error>>>,
}

impl Watched {
    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|e| {
            self.error
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert_with(|| io::Error::new(e.kind(), e.to_string()));
        })
    }
}

impl Write for Watched {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buf);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        self.note(flushed)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}
