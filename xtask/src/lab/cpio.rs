//! Writing a cpio archive in the "newc" form, which the kernel unpacks as its first root file system.
//!
//! Only what an initramfs needs: folders, regular files and symbolic links, all owned by root, with time 0 so that the
//! same content gives the same bytes. Layout: Linux, Documentation/driver-api/early-userspace/buffer-format.rst.

use std::collections::BTreeSet;

/// An archive under construction. Parent folders appear by themselves.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

const FOLDER: u32 = 0o040_755;
const LINK: u32 = 0o120_777;
const FILE: u32 = 0o100_000;

impl Archive {
    /// Adds a folder, and those above it, unless it is there.
    pub fn folder(&mut self, path: &str) {
        let mut end = 0;
        while let Some(at) = path[end..].find('/') {
            self.one_folder(&path[..end + at]);
            end += at + 1;
        }
        self.one_folder(path);
    }

    /// Adds a regular file with the given permission bits.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.parent(path);
        self.entry(path, FILE | mode, content);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, to: &str) {
        self.parent(path);
        self.entry(path, LINK, to.as_bytes());
    }

    /// Ends the archive and returns its bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn parent(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent);
        }
    }

    fn one_folder(&mut self, path: &str) {
        if !path.is_empty() && self.folders.insert(path.to_owned()) {
            self.entry(path, FOLDER, &[]);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
        let name_size = path.len() + 1;
        // magic, inode, mode, uid, gid, links, mtime, size, device and rdevice (major, minor each), name size, check
        let head = format!(
            "070701{:08x}{mode:08x}{:08x}{:08x}{links:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{name_size:08x}{:08x}",
            self.entries,
            0,
            0,
            0,
            content.len(),
            0,
            0,
            0,
            0,
            0
        );
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn one_file_below_two_folders() {
        let mut archive = Archive::default();
        archive.file("a/b/c", 0o755, b"hello");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        let names: Vec<&str> =
            text.split("070701").skip(1).map(|entry| entry[104..].split('\0').next().unwrap_or_default()).collect();
        assert_eq!(names, ["a", "a/b", "a/b/c", "TRAILER!!!"]);
        // head 110, name "a/b/c" and its zero 6: the content begins 116 bytes into the entry, already a multiple of 4
        let at = text.rfind("a/b/c").expect("the file's name");
        assert_eq!(&bytes[at + 6..at + 11], b"hello");
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&text[at - 110 + 14..at - 110 + 22], "000081ed");
        assert_eq!(&text[at - 110 + 54..at - 110 + 62], "00000005");
    }
}
