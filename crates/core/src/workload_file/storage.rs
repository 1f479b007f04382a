//! The storage that a workload file names for its folders.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::table::KeyNote;
use crate::failure::Failure;
use crate::location::{OBJECT_SCHEME, path_only};
use crate::note::Cause;

/// `folder` of a workload file, below the root of the storage that the file's keys without effect
/// name.
///
/// # Errors
/// If it is not a path: with the option that names the same data.
pub fn folder_in_storage(notes: &[KeyNote], folder: &str) -> Result<PathBuf, Failure> {
    // The section as a whole, or each of its keys.
    let value = |name: &str| {
        let of_section = |note: &KeyNote| match note.key.as_str() {
            "storage" => {
                let section: Value = serde_json::from_str(&note.value).ok()?;
                let value = section.get(name)?;
                Some(value.as_str().map_or_else(|| value.to_string(), str::to_string))
            }
            key => (key.rsplit('.').next() == Some(name)).then(|| note.value.clone()),
        };
        notes.iter().find_map(of_section).unwrap_or_default()
    };
    let is_on_daos = notes.iter().any(|note| note.key.contains(".daos_"));
    let kind = value("storage_type").to_ascii_lowercase();
    // A URI says more than the type, which is that of other folders.
    let kind = match kind.as_str() {
        "s3" if folder.starts_with("file://") => "",
        _ if is_on_daos => "daos",
        kind => kind,
    };
    let (root, is_uri) = (&*value("storage_root"), folder.contains("://"));
    let refused = |what: &str, help: String| {
        let fact = format!("the workload file names {what}");
        Err(Failure::saying(Cause::Plan, fact).with_help(help))
    };
    if folder.starts_with(OBJECT_SCHEME) || kind == "s3" {
        let bucket = root.strip_prefix(OBJECT_SCHEME).unwrap_or(root).trim_matches('/');
        let place = match is_uri {
            true => folder.to_string(),
            false => format!("{OBJECT_SCHEME}{bucket}/{}", folder.trim_start_matches("./")),
        };
        let options = [value("endpoint_uris"), value("storage_options")].join(" ");
        let words = options.split(['"', ',', ' ', '[', ']']);
        let endpoints: Vec<&str> = words
            .filter(|word| word.starts_with("http://") || word.starts_with("https://"))
            .collect();
        let endpoints = match endpoints.join(",") {
            none if none.is_empty() => none,
            some => format!(" with S3_ENDPOINT_URIS={some} in the environment"),
        };
        return refused("objects", format!("use --dir {place}{endpoints}"));
    }
    if !["", "local_fs", "parallel_fs", "direct_fs"].contains(&kind) {
        let help = "name its data with --dir: a folder where it is mounted, or s3://BUCKET/PREFIX";
        return refused(&format!("storage of type {kind}"), help.to_string());
    }
    let root = if is_uri { "" } else { root.strip_prefix("./").unwrap_or(root) };
    let (scheme, folder) = match kind {
        "direct_fs" => ("direct://", folder.split_once("://").map_or(folder, |(_, path)| path)),
        _ => ("", folder),
    };
    let path = format!("{scheme}{}", Path::new(root).join(folder).display());
    path_only(&path).or_else(|fix| refused(&path, format!("for --dir, {fix}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note((key, value): &(&str, &str)) -> KeyNote {
        let (key, value) = (key.to_string(), value.to_string());
        KeyNote { key, value, reason: String::new() }
    }

    /// The path of `folder`, or why there is none with what to type.
    fn found(storage: &[(&str, &str)], folder: &str) -> Result<String, String> {
        let notes: Vec<KeyNote> = storage.iter().map(note).collect();
        let found = folder_in_storage(&notes, folder);
        found
            .map(|path| path.display().to_string())
            .map_err(|failure| format!("{}; {}", failure.note.fact, failure.note.remedy))
    }

    #[test]
    fn objects_are_named_with_the_option_to_type() {
        let of_kind = ("storage.storage_type", "s3");
        let root = ("storage.storage_root", "b");
        let options = r#"{"endpoint_url":"http://h:9000","s3_force_path_style":true}"#;
        let options = ("storage.storage_options", options);
        let told = found(&[of_kind, root, options], "./data/unet3d").unwrap_err();
        let typed = "use --dir s3://b/data/unet3d with S3_ENDPOINT_URIS=http://h:9000";
        assert!(
            told.starts_with("the workload file names objects; ") && told.contains(typed),
            "{told}"
        );
        let two = ("storage.endpoint_uris", r#"["http://a:1","http://c:2"]"#);
        let told = found(&[of_kind, root, two], "s3://b/x").unwrap_err();
        assert!(
            told.contains("--dir s3://b/x with S3_ENDPOINT_URIS=http://a:1,http://c:2"),
            "{told}"
        );
        let whole = ("storage", r#"{"storage_type":"s3","storage_root":"b"}"#);
        assert!(found(&[whole], "checkpoints").unwrap_err().contains("--dir s3://b/checkpoints"));
    }

    #[test]
    fn other_storage_is_refused_by_name_and_a_root_is_part_of_the_path() {
        for kind in ["adls", "aistore", "daos", "hdfs"] {
            let told = found(&[("storage.storage_type", kind)], "data").unwrap_err();
            assert!(told.contains(&format!("storage of type {kind}")), "{told}");
        }
        let pool = ("dataset.daos_pool", "p");
        assert!(found(&[pool], "data").unwrap_err().contains("storage of type daos"));
        let root = [("storage.storage_type", "local_fs"), ("storage.storage_root", "/mnt")];
        assert_eq!(found(&root, "data/unet3d"), Ok("/mnt/data/unet3d".to_string()));
        assert_eq!(found(&[("storage.storage_root", "./")], "data"), Ok("data".to_string()));
        assert_eq!(found(&[], "file:///nvme/data"), Ok("/nvme/data".to_string()));
        let of_kind = ("storage.storage_type", "s3");
        assert_eq!(found(&[of_kind], "file:///nvme/ckpt"), Ok("/nvme/ckpt".to_string()));
        let direct = [("storage.storage_type", "direct_fs")];
        for (storage, folder) in [
            (&direct[..], "/p"),
            (&direct, "file:///p"),
            (&direct, "direct:///p"),
            (&[], "direct:///p"),
        ] {
            let told = found(storage, folder).unwrap_err();
            assert!(told.contains("for --dir, write /p, and --path cpu for O_DIRECT"), "{told}");
        }
        assert!(found(&[], "gs://b/x").unwrap_err().contains("gs:// cannot be used here"));
    }
}
