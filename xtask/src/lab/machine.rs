//! What this machine can do for the lab: programs, privileges, package sources, virtualisation.
//!
//! Whatever is missing and cannot be had is a [`Trouble::Skip`], for the lab is worth having only where it can run.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::packages;

/// Why the lab did not run to its end.
#[derive(Debug)]
pub enum Trouble {
    /// This machine cannot: not a failure unless the lab was demanded.
    Skip(String),
    /// It could have, and went wrong.
    Fail(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Skip(reason) => write!(f, "skipped: {reason}"),
            Trouble::Fail(reason) => write!(f, "failed: {reason}"),
        }
    }
}

/// QEMU's program, the one that the guest needs.
pub const QEMU: &str = "qemu-system-x86_64";

/// Programs needed, each with the package that brings it; no package: the machine itself must have it.
const NEEDED: &[(&str, Option<&str>)] =
    &[(QEMU, Some("qemu-system-x86")), ("xz", Some("xz-utils")), ("apt-get", None), ("apt-cache", None), ("dpkg-deb", None)];

/// Makes sure that all needed programs are here.
pub fn prepare() -> Result<(), Trouble> {
    if !Path::new("/proc/self/status").exists() {
        return Err(Trouble::Skip("this machine has no /proc (not Linux?)".into()));
    }
    packages::provide(NEEDED).map_err(Trouble::Skip)
}

/// Whether the kernel offers hardware virtualisation to us. That a guest then boots is another matter.
pub fn kvm_opens() -> bool {
    fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok()
}

/// Where Debian packages come from, and the keys that sign them.
pub struct DebianSource {
    /// The mirror's address.
    pub uri: String,
    /// The file with Debian's archive keys.
    pub keyring: &'static str,
}

/// The first archive mirror that the machine's own apt sources name.
pub fn debian_source() -> Result<DebianSource, String> {
    let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
    if !Path::new(keyring).exists() {
        return Err(format!("no {keyring} to check Debian packages with"));
    }
    let mut files = vec!["/etc/apt/sources.list".into()];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.sort();
    files
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "list" || e == "sources"))
        .filter_map(|path| fs::read_to_string(path).ok())
        .find_map(|text| mirror_in(&text))
        .map(|uri| DebianSource { uri, keyring })
        .ok_or_else(|| "this machine's apt sources name no Debian mirror".into())
}

/// The first address in an apt sources file, of either form, that serves a Debian suite's main archive.
fn mirror_in(text: &str) -> Option<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines
        .filter_map(|line| {
            if let Some(uris) = line.strip_prefix("URIs:") {
                return uris.split_whitespace().next();
            }
            let mut words = line.strip_prefix("deb ")?.split_whitespace();
            words.find(|word| word.contains("://"))
        })
        .find(|uri| uri.trim_end_matches('/').ends_with("/debian") && !uri.contains("security"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::mirror_in;

    #[test]
    fn both_forms_of_sources_name_the_mirror() {
        let stanzas = "Types: deb\n# URIs: http://old.example/debian\nURIs: http://sec.example/debian-security\n\
                       \nTypes: deb\nURIs: http://deb.example/debian\nSuites: bookworm\n";
        assert_eq!(mirror_in(stanzas).as_deref(), Some("http://deb.example/debian"));
        let lines = "# deb http://no.example/debian x\ndeb [arch=amd64] https://deb.example/debian/ stable main\n";
        assert_eq!(mirror_in(lines).as_deref(), Some("https://deb.example/debian/"));
        assert_eq!(mirror_in("deb http://apt.example/other stable main\n"), None);
    }
}
