//! Rules on every text file: nothing of the machine that it was written on.
//!
//! Addresses on the network are held against a list of public sites that documentation may cite; the package mirrors of
//! the machine at hand are looked for by their own names as well.

use super::{Finding, Source};

/// Folders of a developer's machine. Split, so that this file does not break its own rule.
const MACHINE_PATHS: &[&str] = &[concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/tmp/", "target"), concat!("/ho", "me/")];

/// Sites that may be cited; a name stands for itself and all below it.
const CITABLE: &[&str] = &[
    "nvmexpress.org",
    "rfc-editor.org",
    "ietf.org",
    "kernel.org",
    "wireshark.org",
    "rust-lang.org",
    "docs.rs",
    "github.com",
    "apache.org",
    "opensource.org",
    "keepachangelog.com",
    "semver.org",
    "w3.org",
    "json-schema.org",
    "winpcap.org",
    "example",
    "example.org",
    "example.com",
    "localhost",
];

/// The findings in all text files.
pub fn check(files: &[Source]) -> Vec<Finding> {
    let mirrors = mirrors();
    let mut findings = Vec::new();
    for file in files {
        // cargo writes it, and the package index with it
        if file.path.ends_with("Cargo.lock") {
            continue;
        }
        for (i, line) in file.text.iter().flat_map(|text| text.lines()).enumerate() {
            for message in line_faults(line, &mirrors) {
                findings.push(file.finding(i + 1, true, message));
            }
        }
    }
    findings
}

fn line_faults(line: &str, mirrors: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    for path in MACHINE_PATHS {
        let stands_alone =
            line.match_indices(path).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-*}>)~".contains(c)));
        if stands_alone {
            faults.push(format!("a path of one machine: {path}…"));
        }
    }
    for mirror in mirrors.iter().filter(|mirror| line.contains(*mirror)) {
        faults.push(format!("the name of a package mirror: {mirror}"));
    }
    for scheme in ["http://", "https://"] {
        for (at, _) in line.match_indices(scheme) {
            let host = host_of(&line[at + scheme.len()..]);
            if host.contains('.') && !is_citable(host) {
                faults.push(format!("{host} is not a site that the project cites"));
            }
        }
    }
    faults
}

/// The host name that an address (after its scheme) begins with.
fn host_of(rest: &str) -> &str {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-').unwrap_or(rest.len());
    rest[..end].trim_end_matches('.')
}

fn is_citable(host: &str) -> bool {
    let is_address = host.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_address
        || CITABLE.iter().any(|site| host.strip_suffix(site).is_some_and(|before| before.is_empty() || before.ends_with('.')))
}

/// The hosts that this machine's apt sources name, if it has any.
fn mirrors() -> Vec<String> {
    let mut files = vec![std::path::PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = std::fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    let mut hosts: Vec<String> = files
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .flat_map(|text| text.split("://").skip(1).map(|rest| host_of(rest).to_owned()).collect::<Vec<_>>())
        .filter(|host| host.contains('.') && !is_citable(host))
        .collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_judged() {
        let mirrors = ["mirror.invalid".to_owned()];
        let faults = |line: &str| line_faults(line, &mirrors).len();
        for path in MACHINE_PATHS {
            assert_eq!(faults(&format!("see {path}x")), 1, "{path}");
            assert_eq!(faults(&format!("see docs{path}x")), 0, "{path}");
        }
        assert_eq!(faults("deb mirror.invalid stable"), 1);
        assert_eq!(faults(concat!("http", "://packages.invalid/x")), 1);
        assert_eq!(faults(concat!("http", "://notexample.org/x")), 1);
        assert_eq!(faults("https://nvmexpress.org/x and http://a.example/ and http://127.0.0.1:1"), 0);
    }
}
