//! Writing over block devices, tested on loop devices. Where those cannot be created (no root,
//! no `losetup`), the tests are reported as skipped and pass.

#![allow(clippy::print_stderr)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::gds::gds;
use crate::stderr;

/// The options that every test writes with, in addition to the flags.
const WRITE: &str = "--path cpu --op write --io-size 64K --threads 1 --duration 1x";
/// Requirements of tests with devices.
const ROOT: &str = "run as root, with loop devices";
const DESTROY: &str = "--destroy-data";

/// A loop device over a file of 32 MiB, taken down again at the end.
struct Loop {
    device: String,
    image: PathBuf,
    folder: TempDir,
    mounted: bool,
}

/// The output of a command, if it is there and worked.
fn ran(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok()?;
    let told = String::from_utf8_lossy(&output.stdout).trim().to_string();
    output.status.success().then_some(told)
}

impl Loop {
    /// `None`, with a message, where it cannot be had.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let device = ran("losetup", &["--find", "--show", image.to_str().unwrap()]);
        let Some(device) = device else {
            stormlp_fixtures::skipped("losetup failed", ROOT);
            return None;
        };
        Some(Self { device, image, folder, mounted: false })
    }

    /// Puts ext4 on it; `false`, with a message, where that cannot be done.
    fn format(&self) -> bool {
        let made = ran("mkfs.ext4", &["-q", "-F", &self.device]).is_some();
        if !made {
            stormlp_fixtures::skipped("mkfs.ext4 failed", "install e2fsprogs");
        }
        made
    }

    /// Mounts it; `false`, with a message, where that cannot be done.
    fn mount(&mut self) -> bool {
        let place = self.folder.path().join("mounted");
        fs::create_dir(&place).unwrap();
        self.mounted = ran("mount", &[&self.device, place.to_str().unwrap()]).is_some();
        if !self.mounted {
            stormlp_fixtures::skipped("mount failed", ROOT);
        }
        self.mounted
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// Writes to it with these flags.
    fn write(&self, flags: &str) -> assert_cmd::assert::Assert {
        let words = format!("{WRITE} --file {} {flags}", self.device);
        gds(self.folder.path(), &words).assert()
    }

    /// Its current content.
    fn content(&self) -> Vec<u8> {
        assert!(Path::new(&self.device).exists());
        fs::read(&self.image).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if self.mounted {
            ran("umount", &[self.place().to_str().unwrap()]);
        }
        // Where there are partitions, which not every kernel removes by itself.
        ran("partx", &["--delete", &self.device]);
        ran("losetup", &["--detach", &self.device]);
    }
}

#[test]
fn a_mounted_file_system_is_never_written_over() {
    let Some(mut device) = Loop::new() else {
        return;
    };
    if !device.format() || !device.mount() {
        return;
    }
    fs::write(device.place().join("precious"), "data").unwrap();
    let message = stderr(device.write("--destroy-data=ext4").code(4));
    assert!(message.contains("is in use by the kernel: mounted, or part of"), "{message}");
    assert!(message.contains("no option overrides this"), "{message}");
    assert_eq!(fs::read(device.place().join("precious")).unwrap(), b"data");
}

#[test]
fn a_read_only_device_is_refused_before_the_run() {
    let Some(mut device) = Loop::new() else {
        return;
    };
    ran("losetup", &["--detach", &device.device]);
    let image = device.image.to_str().unwrap();
    // Not by `blockdev`: its flag would outlast a test that fails.
    let Some(again) = ran("losetup", &["--find", "--show", "--read-only", image]) else {
        stormlp_fixtures::skipped("losetup --read-only failed", ROOT);
        return;
    };
    device.device = again;
    let message = stderr(device.write(DESTROY).code(4));
    let refusal = format!("{} cannot be written: it is read-only", device.device);
    assert!(message.contains(&refusal), "{message}");
    assert!(message.contains("blockdev --setrw"), "{message}");
    assert!(!device.folder.path().join("stormlp-results").exists());
    let line = format!("gdsio -x 1 -I 1 -i 64K -s 1M -f {} {DESTROY}", device.device);
    let mut gdsio = crate::stormlp();
    gdsio.args(line.split_whitespace());
    let message = stderr(gdsio.current_dir(device.folder.path()).assert().code(4));
    assert!(message.contains(&refusal), "{message}");
    // It may be read.
    let words =
        format!("--path cpu --io-size 64K --threads 1 --duration 1x --file {}", device.device);
    gds(device.folder.path(), &words).assert().success();
}

#[test]
fn an_unused_file_system_yields_to_its_name() {
    let Some(device) = Loop::new() else {
        return;
    };
    if !device.format() {
        return;
    }
    let before = device.content();
    for flags in ["", DESTROY, "--destroy-data=xfs"] {
        let message = stderr(device.write(flags).code(3));
        assert!(message.contains("carries ext4; writing would destroy it"), "{message}");
        assert!(message.contains("add --destroy-data=ext4"), "{message}");
        assert!(device.content() == before, "{flags}");
    }
    device.write("--destroy-data=ext4").success();
    assert!(device.content() != before);
    // Data of stormlp carries no mark, so no signature needs a name from now on.
    device.write(DESTROY).success();
}

#[test]
fn a_device_in_use_is_never_overwritten() {
    use std::os::unix::fs::OpenOptionsExt as _;
    let Some(device) = Loop::new() else {
        return;
    };
    const O_EXCL: i32 = 0o200;
    let holder =
        (fs::File::options().read(true).custom_flags(O_EXCL)).open(&device.device).unwrap();
    let message = stderr(device.write(DESTROY).code(4));
    assert!(message.contains("another program has opened it exclusively"), "{message}");
    drop(holder);
    device.write(DESTROY).success();
}

#[test]
fn gdsio_writes_to_a_device_with_the_same_flags() {
    let Some(device) = Loop::new() else {
        return;
    };
    if !device.format() {
        return;
    }
    let write = |flags: &str| {
        let line = format!("gdsio -x 1 -I 1 -i 64K -s 1M -f {} {flags}", device.device);
        let mut gdsio = crate::stormlp();
        gdsio.args(line.split_whitespace());
        gdsio.current_dir(device.folder.path()).assert()
    };
    let message = stderr(write("").code(3));
    assert!(message.contains("add --destroy-data=ext4"), "{message}");
    write("--destroy-data=ext4").success();
}

#[test]
fn a_disk_and_its_partitions_are_in_use_together() {
    let Some(mut device) = Loop::new() else {
        return;
    };
    ran("losetup", &["--detach", &device.device]);
    let table = "label: gpt\n,8M\n,8M\n";
    let script = device.folder.path().join("table");
    fs::write(&script, table).unwrap();
    let image = device.image.to_str().unwrap().to_string();
    let made = Command::new("sfdisk")
        .args(["-q", &image])
        .stdin(fs::File::open(&script).unwrap())
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        stormlp_fixtures::skipped("sfdisk failed", "install fdisk");
        return;
    }
    let Some(again) = ran("losetup", &["--find", "--show", "--partscan", &image]) else {
        stormlp_fixtures::skipped("losetup --partscan failed", ROOT);
        return;
    };
    device.device = again;
    // Not every kernel looks for them by itself.
    ran("partx", &["--add", &device.device]);
    let part = |number: u32| format!("{}p{number}", device.device);
    let message = stderr(device.write(DESTROY).code(3));
    assert!(message.contains("carries PMBR and gpt"), "{message}");
    if ran("mkfs.ext4", &["-q", "-F", &part(1)]).is_none() {
        stormlp_fixtures::skipped("the kernel shows no partitions", ROOT);
        return;
    }
    let message = stderr(device.write(DESTROY).code(3));
    assert!(message.contains("carries PMBR and ext4 and gpt"), "{message}");
    let place = device.place();
    fs::create_dir(&place).unwrap();
    device.mounted = ran("mount", &[&part(1), place.to_str().unwrap()]).is_some();
    let write_to = |name: &str| {
        let words = format!("{WRITE} --file {name} {DESTROY}");
        gds(device.folder.path(), &words).assert()
    };
    if device.mounted {
        let message = stderr(device.write("--destroy-data=ext4,gpt,PMBR").code(4));
        assert!(message.contains("in use by the kernel"), "{message}");
        stderr(write_to(&part(1)).code(4));
    }
    // Its neighbour is free.
    write_to(&part(2)).success();
}

#[test]
fn without_programs_that_tell_only_zeros_need_no_name() {
    let Some(device) = Loop::new() else {
        return;
    };
    let programs = device.folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    for name in ["wipefs", "blkid"] {
        let path = programs.join(name);
        fs::write(&path, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let write = |flags: &str| {
        let words = format!("{WRITE} --file {} {flags}", device.device);
        gds(device.folder.path(), &words).env("PATH", &programs).assert()
    };
    write(DESTROY).success();
    let message = stderr(write(DESTROY).code(3));
    assert!(message.contains("neither `wipefs` nor `blkid` names it"), "{message}");
    write("--destroy-data=unknown").success();
}
