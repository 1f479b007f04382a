//! The environment of a run: a libcuda, a cufile.json, and an entry of udev for its device.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

use crate::build;

/// The common part of all runs.
pub(crate) struct Scene {
    stand_in: PathBuf,
    preloaded: String,
    /// Holds cufile.json and udev's entries.
    props: TempDir,
    file_system: Option<String>,
}

impl Scene {
    /// Compiles and writes all of it, or says why it cannot be had.
    pub(crate) fn set() -> Result<Self, String> {
        // A kernel module that is there would be asked for memory that no GPU has.
        if Path::new("/proc/driver/nvidia-fs").exists() {
            let why = "nvidia-fs is loaded, which knows real GPUs alone; run it on another machine";
            return Err(why.to_string());
        }
        let built = |library: Result<PathBuf, String>| {
            library.map_err(|why| format!("{why}; a C compiler (`cc`) with its headers would do"))
        };
        let stand_in = built(build::stand_in())?;
        let shims = [built(build::shim())?, built(build::udev())?, built(build::io_trouble())?];
        let props = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(props.path().join("cufile.json"), include_str!("cufile.json")).unwrap();
        let file_system = enter_into_udev(props.path());
        Ok(Self {
            stand_in,
            preloaded: shims.map(|shim| shim.display().to_string()).join(":"),
            props,
            file_system,
        })
    }

    /// A folder to run in, on the file system that the scene is set for.
    pub(crate) fn folder(&self) -> TempDir {
        tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
    }

    /// `command` with the library, and with two GPUs that are none if it is to have some.
    pub(crate) fn enter(&self, command: &mut Command, library: &Path, has_gpu: bool) {
        command
            .env("STORMLP_LIBCUFILE", library)
            .env("LD_PRELOAD", &self.preloaded)
            .env("DOUBLE_UDEV", self.props.path())
            .env("CUFILE_ENV_PATH_JSON", self.props.path().join("cufile.json"))
            .env_remove("CUFILE_LOGFILE_PATH");
        if has_gpu {
            command.env("LD_LIBRARY_PATH", &self.stand_in).env("DOUBLE_GPUS", "2");
        }
    }

    /// Whether the library finds its device in udev's data only by the entry that was written.
    pub(crate) fn lacks_udev(&self) -> bool {
        self.hurdle().is_none() && !Path::new("/run/udev/data").exists()
    }

    /// Why the library may refuse the folder's files; `None` if every version accepts them.
    pub(crate) fn hurdle(&self) -> Option<String> {
        let name = self.file_system.as_deref().unwrap_or("a file system without a device");
        (!matches!(name, "ext4" | "xfs"))
            .then(|| format!("it takes no file on {name}; put the target folder on ext4 or xfs"))
    }
}

/// Writes the entry that udev would have for the device below the target folder, unless it has
/// one, and tells the file system there.
fn enter_into_udev(folder: &Path) -> Option<String> {
    let device = fs::metadata(folder).unwrap().dev();
    let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
    let minor = (device & 0xff) | (device >> 12 & !0xff);
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let number = format!("{major}:{minor}");
    let mount = (mounts.lines()).find(|line| line.split(' ').nth(2) == Some(number.as_str()))?;
    let kind = mount.split(" - ").nth(1)?.split(' ').next()?;
    let name = format!("b{number}");
    if !Path::new("/run/udev/data").join(&name).exists() {
        let entry = format!("E:ID_FS_TYPE={kind}\nE:ID_FS_USAGE=filesystem\n");
        fs::write(folder.join(name), entry).unwrap();
    }
    Some(kind.to_string())
}
