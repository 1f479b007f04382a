//! The libcufiles on this machine, and which of them fits CUDA's driver.
//!
//! In addition to the loader and CUDA's toolkits, Python environments bring one: packages such as
//! torch depend on `nvidia-cufile` (CUDA 13) or `nvidia-cufile-cu12`, which no loader finds.
//! Versions are read from file names and package records, since opening a library runs its code.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use stormlp_core::machine::LibraryCandidate;

use super::version::LibraryVersion;

/// The name of the library everywhere.
const NAME: &str = "libcufile.so.0";

/// A libcufile at `path` with its version, as far as that is known without opening it: `1.13.1`.
pub(super) fn candidate(path: PathBuf, origin: &str, version: Option<String>) -> LibraryCandidate {
    let cuda_major = |version: &str| {
        let mut parts = version.split('.');
        let version = format!("{}.{}", parts.next()?, parts.next()?);
        Some(version.parse::<LibraryVersion>().ok()?.cuda_major())
    };
    LibraryCandidate {
        cuda_major: version.as_deref().and_then(cuda_major),
        origin: origin.to_string(),
        taken: false,
        why: String::new(),
        path,
        version,
    }
}

/// How well a library for CUDA `own` fits a driver for CUDA `driver`, less is better, and in words.
/// A driver also runs libraries of older CUDA versions.
pub(super) fn fit(own: Option<u32>, driver: Option<u32>) -> (u8, String) {
    match (own, driver) {
        (_, None) => (0, "CUDA's driver does not report its version".to_string()),
        (None, Some(_)) => (2, "its version is unknown".to_string()),
        (Some(own), Some(driver)) => {
            let misfit = if own == driver {
                0
            } else if own < driver {
                1
            } else {
                3
            };
            (misfit, format!("it is for CUDA {own}, the driver for CUDA {driver}"))
        }
    }
}

/// Puts the best fits for a driver of CUDA `driver` first, otherwise keeps the order; a file found
/// under several names counts once.
pub(super) fn ranked(
    mut found: Vec<LibraryCandidate>,
    driver: Option<u32>,
) -> Vec<LibraryCandidate> {
    let mut seen = Vec::new();
    found.retain(|candidate| {
        let real = fs::canonicalize(&candidate.path).unwrap_or(candidate.path.clone());
        let new = !seen.contains(&real);
        seen.push(real);
        new
    });
    found.sort_by_key(|candidate| fit(candidate.cuda_major, driver).0);
    found
}

/// Further places to search, after the loader's folders.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    /// The folder of the toolkits.
    pub(super) toolkits: PathBuf,
    /// `$VIRTUAL_ENV`.
    pub(super) virtual_env: Option<PathBuf>,
    /// `$CONDA_PREFIX`.
    pub(super) conda: Option<PathBuf>,
    /// `$PATH`.
    pub(super) path: Option<OsString>,
    /// `$HOME`.
    pub(super) home: Option<PathBuf>,
}

impl Places {
    /// The places of this process.
    pub(super) fn here() -> Self {
        let folder = |name: &str| {
            std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        Self {
            toolkits: PathBuf::from("/usr/local"),
            virtual_env: folder("VIRTUAL_ENV"),
            conda: folder("CONDA_PREFIX"),
            path: std::env::var_os("PATH"),
            home: folder("HOME"),
        }
    }

    /// The libraries there, in order of preference.
    pub(super) fn candidates(&self) -> Vec<LibraryCandidate> {
        let mut found: Vec<(PathBuf, &str)> = Vec::new();
        found.extend(toolkit_libraries(&self.toolkits).map(|path| (path, "a CUDA toolkit")));
        if let Some(prefix) = &self.virtual_env {
            found.extend(in_python(prefix).map(|path| (path, "$VIRTUAL_ENV")));
        }
        if let Some(prefix) = &self.conda {
            let target = format!("targets/{}-linux/lib", toolkit_architecture());
            let own = [prefix.join("lib").join(NAME), prefix.join(target).join(NAME)];
            found.extend(own.into_iter().chain(in_python(prefix)).map(|it| (it, "$CONDA_PREFIX")));
        }
        for prefix in self.python_prefixes() {
            found.extend(in_python(&prefix).map(|path| (path, "python3 on the path")));
        }
        let of_record = |(path, origin): (PathBuf, &str)| {
            let version = version_of_file(&path).or_else(|| version_of_package(&path));
            candidate(path, origin, version)
        };
        found.into_iter().filter(|(path, _)| path.exists()).map(of_record).collect()
    }

    /// The prefixes below which the first `python3` on the path has its packages.
    fn python_prefixes(&self) -> Vec<PathBuf> {
        let path = self.path.as_deref().unwrap_or_default();
        let python = std::env::split_paths(path).map(|folder| folder.join("python3"));
        let Some(python) = python.into_iter().find(|python| python.is_file()) else {
            return Vec::new();
        };
        let prefix = |python: &Path| python.parent().and_then(Path::parent).map(Path::to_path_buf);
        let mut prefixes: Vec<PathBuf> = prefix(&python).into_iter().collect();
        // pyenv's python3 is a script that finds one of these.
        if python.parent().is_some_and(|folder| folder.ends_with("shims")) {
            let of_root = |root: &PathBuf| entries(&root.join("versions")).map(|(_, path)| path);
            let versions: Vec<_> = prefixes.iter().flat_map(of_root).collect();
            prefixes.extend(versions);
        }
        // A virtual environment does not use packages outside it.
        if !prefixes.iter().any(|prefix| prefix.join("pyvenv.cfg").exists()) {
            prefixes.extend(fs::canonicalize(&python).ok().and_then(|real| prefix(&real)));
            prefixes.dedup();
            // Debian's Python below /usr has packages in /usr/local, too.
            let local: Vec<_> = prefixes.iter().map(|prefix| prefix.join("local")).collect();
            prefixes.extend(local);
            prefixes.extend(self.home.as_ref().map(|home| home.join(".local")));
        }
        prefixes
    }
}

/// The libraries of the packages of every Python below `prefix`, newest Python first.
fn in_python(prefix: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let lib = prefix.join("lib");
    let mut pythons: Vec<(Vec<u32>, PathBuf)> = entries(&lib)
        .filter_map(|(name, path)| Some((numbers(name.strip_prefix("python3")?), path)))
        .collect();
    pythons.sort_by_key(|(version, path)| Reverse((version.clone(), path.clone())));
    pythons
        .into_iter()
        .flat_map(|(_, python)| ["site-packages", "dist-packages"].map(|part| python.join(part)))
        .flat_map(|site| ["cu13", "cufile"].map(|part| site.join("nvidia").join(part)))
        .map(|package| package.join("lib").join(NAME))
}

/// Libraries in the toolkits under `root`: `cuda` first, then the newest `cuda-X.Y`.
fn toolkit_libraries(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let mut toolkits: Vec<(Vec<u32>, PathBuf)> = entries(root)
        .filter_map(|(name, path)| {
            let version = match name.strip_prefix("cuda")? {
                "" => vec![u32::MAX],
                rest => numbers(rest.strip_prefix('-')?),
            };
            Some((version, path))
        })
        .collect();
    toolkits.sort_by(|left, right| right.cmp(left));
    let target = format!("targets/{}-linux/lib", toolkit_architecture());
    toolkits
        .into_iter()
        .flat_map(move |(_, toolkit)| [toolkit.join(&target), toolkit.join("lib64")])
        .map(|folder| folder.join(NAME))
}

/// The architecture in NVIDIA's folder names.
fn toolkit_architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "sbsa" } else { "x86_64" }
}

/// Names and paths in a folder; none if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = (String, PathBuf)> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
}

/// The numbers at the start of a version, `[12, 10]` of `12.10`.
fn numbers(version: &str) -> Vec<u32> {
    let parts = version.trim_start_matches('.').split('.');
    parts.map_while(|part| part.parse().ok()).collect()
}

/// The version in the name of the file behind the link: `libcufile.so.1.13.1`.
fn version_of_file(path: &Path) -> Option<String> {
    let real = fs::canonicalize(path).ok()?;
    let version = real.file_name()?.to_str()?.strip_prefix("libcufile.so.")?;
    (numbers(version).len() > 1).then(|| version.to_string())
}

/// The version in the record of the Python package: `nvidia_cufile-1.16.1.26.dist-info`, next to
/// the folder `nvidia` that contains the library.
fn version_of_package(path: &Path) -> Option<String> {
    let newest = path.ancestors().nth(2)?.file_name()? == "cu13";
    let version = |name: String| {
        let record = name.strip_suffix(".dist-info")?.strip_prefix("nvidia_cufile")?;
        let (suffix, version) = record.split_once('-')?;
        // The package of CUDA 13 has no suffix.
        (suffix.is_empty() == newest).then(|| version.to_string())
    };
    entries(path.ancestors().nth(4)?).find_map(|(name, _)| version(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an empty file with its folders.
    fn file(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    /// Installs a package in a Python environment, as pip does.
    fn install(prefix: &Path, part: &str, record: &str) {
        let site = prefix.join("lib/python3.12/site-packages");
        file(&site.join("nvidia").join(part).join("lib").join(NAME));
        file(&site.join(format!("{record}.dist-info/RECORD")));
    }

    fn versions(found: &[LibraryCandidate]) -> Vec<(&str, Option<&str>)> {
        found.iter().map(|one| (one.origin.as_str(), one.version.as_deref())).collect()
    }

    #[test]
    fn toolkits_are_searched_newest_first() {
        let root = tempfile::tempdir().unwrap();
        for toolkit in ["cuda-12.9", "cuda-12.10", "cuda-13.0", "cudnn", "other"] {
            file(&root.path().join(toolkit).join("lib64").join(NAME));
        }
        let places = Places { toolkits: root.path().into(), ..Places::default() };
        let found: Vec<String> = (places.candidates().iter())
            .map(|one| one.path.strip_prefix(root.path()).unwrap().display().to_string())
            .collect();
        let expected = ["cuda-13.0", "cuda-12.10", "cuda-12.9"];
        assert_eq!(found, expected.map(|name| format!("{name}/lib64/libcufile.so.0")));
    }

    #[test]
    fn libraries_of_environments_are_found_with_their_versions() {
        let root = tempfile::tempdir().unwrap();
        let [venv, conda, python] = ["venv", "conda", "python"].map(|name| root.path().join(name));
        install(&venv, "cu13", "nvidia_cufile-1.16.1.26");
        install(&venv, "cufile", "nvidia_cufile_cu12-1.13.1.3");
        install(&python, "cufile", "nvidia_cufile_cu12-1.11.1.6");
        file(&python.join("bin/python3"));
        let real = conda.join("lib/libcufile.so.1.14.1");
        file(&real);
        std::os::unix::fs::symlink(real, conda.join("lib").join(NAME)).unwrap();
        let places = Places {
            toolkits: root.path().join("none"),
            virtual_env: Some(venv),
            conda: Some(conda),
            path: Some(format!("/nowhere:{}", python.join("bin").display()).into()),
            home: None,
        };
        let found = places.candidates();
        let expected = [
            ("$VIRTUAL_ENV", Some("1.16.1.26")),
            ("$VIRTUAL_ENV", Some("1.13.1.3")),
            ("$CONDA_PREFIX", Some("1.14.1")),
            ("python3 on the path", Some("1.11.1.6")),
        ];
        assert_eq!(versions(&found), expected);
        let first = |driver| ranked(found.clone(), driver)[0].version.clone().unwrap();
        assert_eq!(first(Some(12)), "1.13.1.3");
        assert_eq!(first(Some(13)), "1.16.1.26");
        assert_eq!(first(None), "1.16.1.26");
    }

    #[test]
    fn packages_behind_a_script_of_pyenv_are_found() {
        let root = tempfile::tempdir().unwrap();
        let python = root.path().join("versions/3.11.7");
        install(&python, "cu13", "nvidia_cufile-1.20.0.107");
        let shims = root.path().join("shims");
        file(&shims.join("python3"));
        let places = Places {
            toolkits: root.path().join("none"),
            path: Some(shims.into_os_string()),
            ..Places::default()
        };
        let found = places.candidates();
        assert!(found.len() == 1 && found[0].path.starts_with(&python), "{found:?}");
    }

    #[test]
    fn the_choice_is_explained() {
        let of = |version: Option<&str>| {
            let path = PathBuf::from(format!("/{version:?}"));
            candidate(path, "the loader", version.map(str::to_string))
        };
        let [old, new] = ["1.14.1", "1.20"].map(|version| of(Some(version)));
        assert_eq!((old.cuda_major, new.cuda_major), (Some(12), Some(13)));
        let words = fit(new.cuda_major, Some(12)).1;
        assert!(words.contains("for CUDA 13, the driver for CUDA 12"), "{words}");
        let order = ranked(vec![new.clone(), of(None), old.clone()], Some(12));
        assert_eq!(order, [old, of(None), new]);
    }

    #[test]
    fn one_file_under_two_names_is_one_candidate() {
        let root = tempfile::tempdir().unwrap();
        file(&root.path().join("cuda-12.8/lib64").join(NAME));
        let link = root.path().join("cuda");
        std::os::unix::fs::symlink(root.path().join("cuda-12.8"), link).unwrap();
        let places = Places { toolkits: root.path().into(), ..Places::default() };
        assert_eq!(places.candidates().len(), 2);
        assert_eq!(ranked(places.candidates(), Some(12)).len(), 1);
    }
}
