//! Making the guest: a Debian kernel and one initramfs with busybox, the NVMe modules and nvme-cli.
//!
//! Packages come by name from the mirror that this machine's own apt sources name, through apt with its state in a
//! folder of ours, so that no privilege is needed and the machine's package state stays as it is. There is no root disk:
//! the guest lives in memory. Start with [`build`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::cpio::Archive;
use super::machine::{self, Trouble};
use super::modules::Modules;
use crate::cmd;

/// What a guest is booted from.
pub struct Image {
    /// The kernel, as the package has it.
    pub kernel: PathBuf,
    /// The initramfs.
    pub initrd: PathBuf,
    /// The kernel's release, such as `6.12.48+deb13-amd64`.
    pub release: String,
}

/// A kernel that a guest can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its version, as in the name of its expectation file.
    pub version: &'static str,
    /// The Debian suite that has it.
    suite: &'static str,
}

/// The kernels, the usual one first.
pub const KERNELS: &[Kernel] = &[Kernel { version: "6.12", suite: "trixie" }, Kernel { version: "6.1", suite: "bookworm" }];

const KERNEL_PACKAGE: &str = "linux-image-amd64";
/// The suite of user space, whatever the kernel.
const USER_SUITE: &str = "trixie";
/// Everything in user space: nvme-cli, rdma, and the libraries of verbs, with what they load, and busybox for all else.
const PACKAGES: &[&str] = &[
    "busybox-static",
    "nvme-cli",
    "libnvme1t64",
    "libjson-c5",
    "libkeyutils1",
    "libssl3t64",
    "libzstd1",
    "zlib1g",
    "libc6",
    "iproute2",
    "libmnl0",
    "libbsd0",
    "libmd0",
    "libcap2",
    "libibverbs1",
    "ibverbs-providers",
    "librdmacm1t64",
    "libnl-3-200",
    "libnl-route-3-200",
    "libgcc-s1",
];
/// Loaded at boot, in an order that their dependencies allow.
const BOOT_MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_net",
    "crc32c_generic",
    "crc32c_intel",
    "crc32_generic",
    "null_blk",
    "nvmet",
    "nvmet-tcp",
    "nvme-tcp",
    "rdma_rxe",
    "nvmet-rdma",
    "nvme-rdma",
    "ib_uverbs",
    "rdma_ucm",
];
/// In the guest as `/modules/*.ko`, for those who want them: `insmod /modules/loop.ko`.
const SPARE_MODULES: &[&str] = &["loop", "brd", "ext4"];

const INIT: &str = include_str!("../../lab/init");
const TARGET: &str = include_str!("../../lab/target.sh");
const HOST: &str = include_str!("../../lab/host.sh");
const WRONG: &str = include_str!("../../lab/wrong.sh");

/// The guest's files under `dir`, made now unless they are there and were made from the same inputs.
pub fn build(dir: &Path, kernel: Kernel, force: bool) -> Result<Image, Trouble> {
    let image = dir.join(format!("image-{}", kernel.version));
    let stamp = image.join("stamp");
    let inputs = inputs(kernel);
    if !force && fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == inputs) {
        return open(&image).map_err(Trouble::Fail);
    }
    let started = Instant::now();
    create(&image).map_err(Trouble::Fail)?;
    let _ = fs::remove_file(&stamp);
    let of_suite = |suite| Packages::at_hand(&dir.join("packages").join(suite), suite, force).and_then(|p| files_in(&p.debs));
    let no_debs = |e| Trouble::Skip(format!("no Debian packages: {e}"));
    let mut debs = of_suite(kernel.suite).map_err(no_debs)?;
    debs.retain(|deb| is_kernel(deb));
    debs.extend(of_suite(USER_SUITE).map_err(no_debs)?.into_iter().filter(|deb| !is_kernel(deb)));
    let release = make(&debs, dir, &image).map_err(Trouble::Fail)?;
    write(&stamp, inputs.as_bytes()).map_err(Trouble::Fail)?;
    println!("lab: guest with Linux {release} built in {:.1} s", started.elapsed().as_secs_f32());
    open(&image).map_err(Trouble::Fail)
}

/// Unpacks, assembles and cleans up; returns the kernel's release.
fn make(debs: &[PathBuf], dir: &Path, image: &Path) -> Result<String, String> {
    let tree = dir.join("tree");
    unpack(debs, &tree)?;
    let release = assemble(&tree, image)?;
    let _ = fs::remove_dir_all(&tree);
    write(&image.join("release"), release.as_bytes())?;
    Ok(release)
}

fn open(image: &Path) -> Result<Image, String> {
    let release = fs::read_to_string(image.join("release")).map_err(|e| format!("the guest image in {}: {e}", image.display()))?;
    Ok(Image { kernel: image.join("vmlinuz"), initrd: image.join("initrd"), release: release.trim().to_owned() })
}

/// All that the image is made from except the packages' versions: those are taken when it is made, and stay.
fn inputs(kernel: Kernel) -> String {
    format!("image 4\n{kernel:?} {USER_SUITE} {PACKAGES:?}\n{BOOT_MODULES:?} {SPARE_MODULES:?}\n{INIT}\n{TARGET}\n{HOST}\n{WRONG}")
}

fn is_kernel(deb: &Path) -> bool {
    deb.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("linux-image-"))
}

fn unpack(debs: &[PathBuf], tree: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(tree);
    create(tree)?;
    for deb in debs {
        cmd::output(Command::new("dpkg-deb").arg("-x").arg(deb).arg(tree))?;
    }
    Ok(())
}

/// The Debian packages of a suite that the guests need, in a folder.
struct Packages {
    debs: PathBuf,
}

impl Packages {
    /// Those downloaded earlier, unless `anew`: a changed guest script is no reason to fetch a kernel again.
    fn at_hand(dir: &Path, suite: &str, anew: bool) -> Result<Packages, String> {
        let stamp = dir.join("stamp");
        let wanted = format!("{suite} {KERNEL_PACKAGE} {:?}", Packages::of_user(suite));
        if !anew && fs::read_to_string(&stamp).is_ok_and(|had| had == wanted) {
            return Ok(Packages { debs: dir.join("debs") });
        }
        let _ = fs::remove_file(&stamp);
        let packages = Packages::fetch(dir, suite)?;
        write(&stamp, wanted.as_bytes())?;
        Ok(packages)
    }

    fn of_user(suite: &str) -> &'static [&'static str] {
        if suite == USER_SUITE { PACKAGES } else { &[] }
    }

    fn fetch(dir: &Path, suite: &str) -> Result<Packages, String> {
        let apt = Apt::set_up(dir, suite)?;
        apt.run(&["apt-get", "update", "-qq"])?;
        let shown = apt.run(&["apt-cache", "show", "--no-all-versions", KERNEL_PACKAGE])?;
        let kernel = String::from_utf8_lossy(&shown)
            .lines()
            .find_map(|line| line.strip_prefix("Depends: "))
            .and_then(|depends| depends.split([' ', ',']).next())
            .filter(|name| name.starts_with("linux-image-"))
            .map(str::to_owned)
            .ok_or_else(|| format!("{KERNEL_PACKAGE} names no kernel package"))?;
        let debs = dir.join("debs");
        let _ = fs::remove_dir_all(&debs);
        create(&debs)?;
        let mut download = vec!["apt-get", "download", "-qq", &kernel];
        download.extend_from_slice(Packages::of_user(suite));
        apt.run_in(&debs, &download)?;
        Ok(Packages { debs })
    }
}

/// apt with state, lists and sources of its own.
struct Apt {
    config: PathBuf,
    dir: PathBuf,
}

impl Apt {
    fn set_up(dir: &Path, suite: &str) -> Result<Apt, String> {
        create(&dir.join("lists/partial"))?;
        create(&dir.join("cache/archives/partial"))?;
        let source = machine::debian_source()?;
        write(&dir.join("sources.list"), format!("deb [signed-by={}] {} {suite} main\n", source.keyring, source.uri).as_bytes())?;
        write(&dir.join("status"), b"")?;
        let path = dir.display();
        let text = format!(
            "Dir::Etc::SourceList \"{path}/sources.list\";\n\
             Dir::Etc::SourceParts \"/dev/null\";\n\
             Dir::State \"{path}\";\n\
             Dir::State::Lists \"{path}/lists\";\n\
             Dir::State::status \"{path}/status\";\n\
             Dir::Cache \"{path}/cache\";\n\
             APT::Architecture \"amd64\";\n\
             APT::Architectures {{ \"amd64\"; }};\n\
             APT::Sandbox::User \"root\";\n\
             Acquire::Languages \"none\";\n\
             Acquire::Retries \"2\";\n"
        );
        let config = dir.join("apt.conf");
        write(&config, text.as_bytes())?;
        Ok(Apt { config, dir: dir.to_owned() })
    }

    fn run(&self, line: &[&str]) -> Result<Vec<u8>, String> {
        self.run_in(&self.dir, line)
    }

    fn run_in(&self, dir: &Path, line: &[&str]) -> Result<Vec<u8>, String> {
        let mut command = Command::new(line[0]);
        command.args(&line[1..]).current_dir(dir);
        command.env("APT_CONFIG", &self.config);
        cmd::output(&mut command)
    }
}

/// Puts kernel and initramfs together from the unpacked packages; returns the kernel's release.
fn assemble(tree: &Path, image: &Path) -> Result<String, String> {
    let boot = files_in(&tree.join("boot"))?;
    let (kernel, release) = boot
        .iter()
        .find_map(|path| {
            let name = path.file_name()?.to_str()?;
            Some((path, name.strip_prefix("vmlinuz-")?.to_owned()))
        })
        .ok_or("the kernel package holds no boot/vmlinuz")?;
    fs::copy(kernel, image.join("vmlinuz")).map_err(|e| format!("cannot copy the kernel: {e}"))?;

    let mut archive = Archive::default();
    for folder in ["dev", "proc", "sys", "run", "tmp", "sbin", "etc/nvme"] {
        archive.folder(folder);
    }
    archive.file("init", 0o755, INIT.as_bytes());
    archive.file("target.sh", 0o644, TARGET.as_bytes());
    archive.file("host.sh", 0o644, HOST.as_bytes());
    archive.file("wrong.sh", 0o644, WRONG.as_bytes());
    archive.file("bin/busybox", 0o755, &read(&tree.join("usr/bin/busybox"))?);
    archive.file("usr/sbin/nvme", 0o755, &read(&tree.join("usr/sbin/nvme"))?);
    archive.file("usr/bin/rdma", 0o755, &read(&tree.join("usr/bin/rdma"))?);
    archive.link("lib64", "usr/lib64");
    add_libraries(&mut archive, tree)?;
    add_provider(&mut archive, tree)?;
    add_modules(&mut archive, tree, &release)?;
    write(&image.join("initrd"), &archive.finish())?;
    Ok(release)
}

/// The loader and every shared object that the packages put into the library folder itself.
fn add_libraries(archive: &mut Archive, tree: &Path) -> Result<(), String> {
    for folder in ["usr/lib64", "usr/lib/x86_64-linux-gnu"] {
        for path in files_in(&tree.join(folder))? {
            let Some(name) = path.file_name().and_then(|n| n.to_str()) else {
                continue;
            };
            let inside = format!("{folder}/{name}");
            if !name.contains(".so") {
                continue;
            }
            if let Ok(to) = fs::read_link(&path) {
                archive.link(&inside, &to.to_string_lossy());
            } else if path.is_file() {
                archive.file(&inside, 0o755, &read(&path)?);
            }
        }
    }
    Ok(())
}

/// What libibverbs loads for soft-RoCE.
fn add_provider(archive: &mut Archive, tree: &Path) -> Result<(), String> {
    archive.file("etc/libibverbs.d/rxe.driver", 0o644, &read(&tree.join("etc/libibverbs.d/rxe.driver"))?);
    let folder = "usr/lib/x86_64-linux-gnu/libibverbs";
    for path in files_in(&tree.join(folder))? {
        if let Some(name) = path.file_name().and_then(|n| n.to_str()).filter(|n| n.starts_with("librxe")) {
            archive.file(&format!("{folder}/{name}"), 0o755, &read(&path)?);
        }
    }
    Ok(())
}

fn add_modules(archive: &mut Archive, tree: &Path, release: &str) -> Result<(), String> {
    let dir = ["usr/lib/modules", "lib/modules"]
        .map(|folder| tree.join(folder).join(release))
        .into_iter()
        .find(|dir| dir.is_dir())
        .ok_or("the kernel package holds no modules")?;
    let modules = Modules::open(&dir)?;
    let at_boot = modules.closure(BOOT_MODULES)?;
    let list: String = at_boot.iter().map(|module| format!("/modules/{}.ko\n", module.name)).collect();
    archive.file("modules.boot", 0o644, list.as_bytes());
    let spare = modules.closure(SPARE_MODULES)?.into_iter().filter(|module| !at_boot.iter().any(|other| other.name == module.name));
    let spare: Vec<_> = spare.collect();
    for module in at_boot.iter().chain(&spare) {
        archive.file(&format!("modules/{}.ko", module.name), 0o644, &module.object);
    }
    Ok(())
}

/// What lies in a folder, in the order of the names.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("cannot list {}: {e}", dir.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

fn create(dir: &Path) -> Result<(), String> {
    fs::create_dir_all(dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))
}
