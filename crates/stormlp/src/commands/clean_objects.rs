//! `stormlp clean s3://bucket/prefix`: removes the objects that a manifest lists, and nothing else.

use std::path::Path;

use stormlp_core::failure::Failure;
use stormlp_core::printable::printable;
use stormlp_core::units::counted;
use stormlp_matrix::plan::{DataManifest, MANIFEST_NAME};
use stormlp_transfer::storage::{Anywhere, Left, Storage};

use crate::output;

/// Removes the objects and prints their number.
pub(super) fn run(prefix: &Path, dry_run: bool) -> Result<(), Failure> {
    let storage = Anywhere::default();
    let marker = prefix.join(MANIFEST_NAME);
    let Some(text) = storage.read_text(&marker)? else {
        return Err(Failure::machine(anyhow::anyhow!(
            "{} does not exist, so stormlp did not create the objects beneath {}",
            marker.display(),
            prefix.display()
        ))
        .with_help("name the prefix that a run was given: stormlp clean s3://bucket/prefix"));
    };
    let manifest = DataManifest::parse(&text)
        .map_err(|error| Failure::no_plan(anyhow::anyhow!("{}: {error}", marker.display())))?;
    let (mut files, mut left) = (0, Vec::new());
    for listed in &manifest.files {
        let path = prefix.join(&listed.name);
        // An object is another one as soon as its content is, whatever its size.
        match storage.left(&path, Some(listed.bytes), listed.identity)? {
            Left::Other(what) => left.push(format!("{}: it is {what}", path.display())),
            Left::Nothing | Left::Same(_) if dry_run => files += 1,
            Left::Nothing | Left::Same(_) => {
                storage.remove(&path)?;
                files += 1;
            }
        }
    }
    if left.is_empty() && !dry_run {
        storage.remove(&marker)?;
    }
    let verb = if dry_run { "would remove" } else { "removed" };
    let line = format!(
        "{verb} {} with the objects that were put for them, from {}",
        counted(files, "test object"),
        prefix.display()
    );
    let printed = output::print(&printable(&line));
    for path in left {
        output::say(format!("left {path}, which stormlp did not create"));
    }
    printed
}
