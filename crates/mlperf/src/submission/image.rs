//! The digest of a source code image, as computed by the official tool.

use std::fs::File;
use std::io;
use std::path::Path;

use md5::{Digest, Md5};

use super::tree::{CODE_HASH, Entry, Tree, join, last, parent};

/// Folders that `md5-tree-v1` excludes at the top of an image, and `md5-tree-v2` at any depth.
const EXCLUDED_FOLDERS: [&str; 10] = [
    ".git",
    "__pycache__",
    ".pytest_cache",
    ".venv",
    "node_modules",
    "build",
    "dist",
    ".tox",
    "test",
    "tests",
];
/// Folders of editors and assistants, which only `md5-tree-v2` excludes.
const EXCLUDED_IN_V2: [&str; 8] =
    [".idea", ".vscode", ".claude", ".agent", ".agents", ".roo", ".planning", ".gsd-tmp"];
/// Names of excluded files.
const EXCLUDED_FILES: [&str; 3] = [CODE_HASH, ".DS_Store", "Thumbs.db"];
/// Compiler output.
const EXCLUDED_ENDS: [&str; 2] = [".pyc", ".pyo"];
/// The source of mlpstorage is a few MiB.
const MOST_BYTES: u64 = 1 << 30;

/// Computes the digest of every image in `tree`, which was read from the folder `root`. Unreadable
/// and far too large images get none.
pub(super) fn add_digests(root: &Path, tree: &mut Tree) {
    let records = tree.iter().map(|(path, _)| path).filter(|path| last(path) == CODE_HASH);
    let images: Vec<String> = records.map(|path| parent(path).to_string()).collect();
    for image in images {
        if let Ok(Some(digest)) = digest(root, tree, &image) {
            tree.set_digest(image, digest);
        }
    }
}

/// The files that an algorithm counts; an image's record names it.
#[derive(Clone, Copy)]
enum Algorithm {
    V1,
    V2,
}

/// MD5 over path and content of each file, in byte order of the paths.
fn digest(root: &Path, tree: &Tree, image: &str) -> io::Result<Option<String>> {
    let record = tree.json(&join(image, CODE_HASH));
    let algorithm = match record.value()["algorithm"].as_str() {
        Some("md5-tree-v1") => Algorithm::V1,
        _ => Algorithm::V2,
    };
    let folder = root.join(image);
    let mut md5 = Md5::new();
    let mut total = 0;
    for (path, entry) in tree.iter() {
        let inside = match image {
            "" => Some(path),
            image => path.strip_prefix(image).and_then(|rest| rest.strip_prefix('/')),
        };
        // Links are excluded.
        let (Some(inside), Entry::File { bytes, .. }) = (inside, entry) else {
            continue;
        };
        if !algorithm.counts(inside) {
            continue;
        }
        total += bytes;
        if total > MOST_BYTES {
            return Ok(None);
        }
        md5.update(inside.as_bytes());
        io::copy(&mut File::open(folder.join(inside))?, &mut md5)?;
    }
    let digits = md5.finalize();
    Ok(Some(digits.iter().map(|byte| format!("{byte:02x}")).collect()))
}

impl Algorithm {
    /// Whether the file at `path`, relative to its image, is included.
    fn counts(self, path: &str) -> bool {
        let (name, folder) = (last(path), parent(path));
        let mut folders = folder.split('/').enumerate();
        let is_excluded = folders.any(|(depth, folder)| match self {
            _ if folder.ends_with(".egg-info") => true,
            Self::V1 => depth == 0 && EXCLUDED_FOLDERS.contains(&folder),
            Self::V2 => EXCLUDED_FOLDERS.contains(&folder) || EXCLUDED_IN_V2.contains(&folder),
        });
        !is_excluded
            && !EXCLUDED_FILES.contains(&name)
            && !EXCLUDED_ENDS.iter().any(|end| name.ends_with(end))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::read;

    #[test]
    fn the_digest_is_of_paths_and_contents_in_order() {
        // md5sum of `a/c.pyonea/tests/d.pythreeb.pytwo`, with `a/.idea/h.xmlfour` first in v1, and
        // without folders of that name at any depth in v2.
        for (algorithm, wanted) in [
            ("md5-tree-v1", "2c18ef9a2bc342adac4cc6fcfa4bf178"),
            ("md5-tree-v2", "2afc957b72b3d562796cadb888a30eb6"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let image = folder.path().join("code-images/code-01234567");
            let record = format!("{{\"algorithm\": \"{algorithm}\"}}");
            for (name, text) in [
                ("b.py", "two"),
                ("a/c.py", "one"),
                ("a/tests/d.py", "three"),
                ("a/.idea/h.xml", "four"),
                (".code-hash.json", record.as_str()),
                ("tests/e.py", "no"),
                ("a/x.egg-info/f", "no"),
                ("a/g.pyc", "no"),
            ] {
                let place = image.join(name);
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                fs::write(place, text).unwrap();
            }
            std::os::unix::fs::symlink("b.py", image.join("link.py")).unwrap();
            let tree = read::tree(folder.path()).unwrap();
            assert_eq!(tree.digest("code-images/code-01234567"), Some(wanted), "{algorithm}");
            assert_eq!(tree.digest("code-images"), None);
        }
    }
}
