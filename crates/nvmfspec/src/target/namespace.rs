//! `--namespace`: what stores a namespace.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use nvmf_engine::controller::NewNamespace;
use nvmf_engine::store::{MemoryStore, NullStore};
use nvmf_net::FileStore;
use nvmf_seam::store::{Geometry, Store};

/// `mem:SIZE`, `null:SIZE` or `file:PATH`, then `,bs=BYTES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    kind: Kind,
    block_size: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Memory(u64),
    Null(u64),
    File(PathBuf),
}

impl FromStr for Namespace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected mem:SIZE, null:SIZE or file:PATH, then maybe ,bs=BYTES";
        let (store, options) = match text.rsplit_once(",bs=") {
            Some((store, bs)) => (store, Some(bs)),
            None => (text, None),
        };
        let block_size = match options {
            None => 512,
            Some(bs) => bs
                .parse()
                .ok()
                .filter(|b: &u32| b.is_power_of_two() && (512..=1 << 20).contains(b))
                .ok_or(format!("`{bs}` is no block size: a power of two from 512 to 1048576 was expected"))?,
        };
        let kind = match store.split_once(':') {
            Some(("mem", size)) => Kind::Memory(bytes(size)?),
            Some(("null", size)) => Kind::Null(bytes(size)?),
            Some(("file", path)) if !path.is_empty() => Kind::File(path.into()),
            _ => return Err(format!("`{store}` is no store: {expected}")),
        };
        if let Kind::Memory(size) | Kind::Null(size) = kind
            && size < u64::from(block_size)
        {
            return Err(format!("{size} bytes are less than one block of {block_size}"));
        }
        Ok(Self { kind, block_size })
    }
}

/// A number of bytes with a unit: `64MiB`, `1g`, `4096`.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size: a number with B, KiB, MiB, GiB or TiB was expected");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Memory(size) => write!(f, "mem:{size}")?,
            Kind::Null(size) => write!(f, "null:{size}")?,
            Kind::File(path) => write!(f, "file:{}", path.display())?,
        }
        write!(f, ",bs={}", self.block_size)
    }
}

impl Namespace {
    /// Opens the store.
    pub fn open(&self) -> std::io::Result<NewNamespace> {
        let geometry = |size: u64| Geometry { blocks: size / u64::from(self.block_size), block_size: self.block_size };
        let (store, blocking): (Arc<dyn Store>, bool) = match &self.kind {
            Kind::Memory(size) => (Arc::new(MemoryStore::new(geometry(*size))), false),
            Kind::Null(size) => (Arc::new(NullStore::new(geometry(*size))), false),
            Kind::File(path) => (Arc::new(FileStore::open(path, self.block_size)?), true),
        };
        Ok(NewNamespace { store, blocking, uuid: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_read_and_shown() {
        for (text, shown) in [
            ("mem:64MiB", "mem:67108864,bs=512"),
            ("null:1g,bs=4096", "null:1073741824,bs=4096"),
            ("file:/tmp/a,b.img,bs=4096", "file:/tmp/a,b.img,bs=4096"),
        ] {
            assert_eq!(text.parse::<Namespace>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in ["", "mem", "mem:", "mem:5xb", "mem:511", "mem:64MiB,bs=1000", "disk:1g", "file:", "mem:99999999999TiB"] {
            assert!(text.parse::<Namespace>().is_err(), "{text}");
        }
    }
}
