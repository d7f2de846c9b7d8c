//! Which kernel modules the guest needs, in the order in which they must be loaded.
//!
//! A module tells in its `.modinfo` section (strings `key=value`, each ended by a zero) which others it depends on, so
//! that neither depmod nor kmod is needed here. Start with [`Modules::closure`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cmd;

/// One module, uncompressed.
pub struct Module {
    /// The file's name without `.ko`, as it is spelt in the package.
    pub name: String,
    /// The ELF object.
    pub object: Vec<u8>,
}

/// The modules of an unpacked kernel package.
pub struct Modules {
    /// By canonical name (`_` for `-`): where the object lies.
    files: BTreeMap<String, PathBuf>,
    /// Canonical names of what is built into the kernel.
    builtin: BTreeSet<String>,
}

impl Modules {
    /// Lists the modules below `dir`, a package's `lib/modules/<release>`.
    pub fn open(dir: &Path) -> Result<Modules, String> {
        let mut files = BTreeMap::new();
        let mut todo = vec![dir.join("kernel")];
        while let Some(folder) = todo.pop() {
            let entries = std::fs::read_dir(&folder).map_err(|e| format!("cannot list {}: {e}", folder.display()))?;
            for entry in entries.flatten() {
                let path = entry.path();
                if path.is_dir() {
                    todo.push(path);
                } else if let Some(name) = module_name(&path) {
                    files.insert(canonical(&name), path);
                }
            }
        }
        let builtin = std::fs::read_to_string(dir.join("modules.builtin"))
            .unwrap_or_default()
            .lines()
            .filter_map(|line| module_name(Path::new(line)))
            .map(|name| canonical(&name))
            .collect();
        Ok(Modules { files, builtin })
    }

    /// The wanted modules and all that they depend on, each after what it depends on.
    pub fn closure(&self, wanted: &[&str]) -> Result<Vec<Module>, String> {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        for name in wanted {
            self.visit(&canonical(name), &mut seen, &mut order)?;
        }
        Ok(order)
    }

    fn visit(&self, name: &str, seen: &mut BTreeSet<String>, order: &mut Vec<Module>) -> Result<(), String> {
        if self.builtin.contains(name) || !seen.insert(name.to_owned()) {
            return Ok(());
        }
        let path = self.files.get(name).ok_or_else(|| format!("the kernel package holds no module {name}"))?;
        let object = read_object(path)?;
        for dependency in depends(&object) {
            self.visit(&canonical(&dependency), seen, order)?;
        }
        order.push(Module { name: module_name(path).unwrap_or_default(), object });
        Ok(())
    }
}

/// `nvme-tcp` for `…/nvme-tcp.ko` and `…/nvme-tcp.ko.xz`.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let stem = file.strip_suffix(".ko").or_else(|| file.strip_suffix(".ko.xz"))?;
    Some(stem.to_owned())
}

fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

fn read_object(path: &Path) -> Result<Vec<u8>, String> {
    if path.extension().is_some_and(|e| e == "xz") {
        return cmd::output(Command::new("xz").arg("-dc").arg(path));
    }
    std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

/// What `depends=` in the module's own words names; empty where it depends on nothing.
fn depends(object: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = object.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = object[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(value).split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_first_and_once() {
        let dir = std::env::temp_dir().join(format!("xtask-modules-{}", std::process::id()));
        let kernel = dir.join("kernel/drivers");
        std::fs::create_dir_all(&kernel).expect("a folder");
        for (name, needs) in [("nvme-core", "nvme-auth"), ("nvme-auth", ""), ("nvme-tcp", "nvme-core,nvme-auth,tcp")] {
            let object = format!("ELF\0license=GPL\0depends={needs}\0name=x\0");
            std::fs::write(kernel.join(format!("{name}.ko")), object).expect("a file");
        }
        std::fs::write(dir.join("modules.builtin"), "kernel/net/tcp.ko\n").expect("a file");
        let modules = Modules::open(&dir).expect("the modules");
        let names =
            |wanted: &[&str]| -> Result<Vec<String>, String> { Ok(modules.closure(wanted)?.into_iter().map(|m| m.name).collect()) };
        assert_eq!(names(&["nvme_tcp", "nvme-core"]), Ok(["nvme-auth", "nvme-core", "nvme-tcp"].map(String::from).to_vec()));
        assert!(names(&["nvme-rdma"]).is_err());
        std::fs::remove_dir_all(&dir).expect("the folder gone");
    }
}
