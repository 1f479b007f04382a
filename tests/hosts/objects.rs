//! Two hosts on one bucket: each sees the objects of the other one, which is tested before the
//! first byte.

use std::path::Path;

use stormlp_test_support::ObjectServer;

use crate::checkpoint::folder;
use crate::launcher::{Launcher, said};

/// Objects of 40 kB.
const SIZES: &str = "--params dataset.record_length_bytes=40000 --params dataset.record_length_bytes_stdev=0 \
                     --params dataset.num_files_train=32";

/// Runs `words` by two processes; their exit code and messages.
fn two(launcher: Launcher, folder: &Path, server: &ObjectServer, words: &str) -> (i32, String) {
    let arguments: Vec<&str> = words.split_whitespace().collect();
    let mut command = launcher.two(folder, &arguments);
    let output = command.envs(server.variables()).env("HOME", folder).output().unwrap();
    (output.status.code().unwrap(), said(&output))
}

#[test]
fn two_hosts_share_a_bucket() {
    Launcher::under_each(|launcher| {
        let (folder, server) = (folder(), ObjectServer::default());
        let run = |words: &str| {
            let (code, said) = two(launcher, folder.path(), &server, words);
            assert_eq!(code, 0, "{words}: {said}");
        };
        run(&format!("datagen unet3d --dir s3://bucket/d {SIZES}"));
        let samples = || server.keys().into_iter().filter(|key| key.ends_with(".npz")).count();
        assert_eq!(samples(), 32, "{:?}", server.keys());
        run(&format!(
            "train unet3d --dir s3://bucket/d -n 4 --params reader.batch_size=2 --epochs 1 --compute-time 1 {SIZES}"
        ));
        run("checkpoint tiny.yaml --dir s3://bucket/c --ranks 8 --scale 1 --saves 2 --restores 2 \
             --pause 0 --verify");
        run("gds --dir s3://bucket/g --io-size 256K --file-size 1M --threads 2 --duration 1x \
             --op read,write");
        // The object that shows that a prefix is shared is gone, and the other host looked at it.
        let looked = |prefix: &str| {
            let asked = format!("HEAD /bucket/{prefix}/.stormlp-seen-by-all-");
            server.lines().iter().filter(|line| line.starts_with(&asked)).count()
        };
        for prefix in ["d", "c", "g"] {
            assert!(looked(prefix) >= 2, "{prefix}: {:?}", server.lines());
        }
        assert!(
            !server.keys().iter().any(|key| key.contains("seen-by-all")),
            "{:?}",
            server.keys()
        );
        // Prefixes are no folders.
        assert!(!folder.path().join("s3:").exists());
    });
}
