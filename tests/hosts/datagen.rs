//! `stormlp datagen` on two hosts: each generates its share of the files, one writes the manifest.

use std::fs;
use std::path::Path;

use crate::gds::alone;
use crate::launcher::{Launcher, said};

/// A dataset of small files.
const SMALL: [&str; 12] = [
    "datagen",
    "unet3d",
    "--dir",
    "data",
    "--params",
    "dataset.record_length_bytes=4096",
    "--params",
    "dataset.record_length_bytes_stdev=0",
    "--params",
    "dataset.num_files_train=21",
    "--params",
    "dataset.num_files_eval=0",
];

fn journals(folder: &Path) -> usize {
    let names = fs::read_dir(folder.join("data"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("journal")).count()
}

#[test]
fn hosts_with_different_options_generate_nothing() {
    let cases: [(&[&str], &str); 4] = [
        (&["--threads", "3"], "option --threads"),
        (&["--tune", "engine=psync"], "engine"),
        (&["--files", "22"], "dataset at `train_files`"),
        (&["--resume"], "--resume"),
    ];
    Launcher::under_each(|launcher| {
        for (more, named) in cases {
            let folder = tempfile::tempdir().unwrap();
            // Options of several values consume the words that follow.
            let second = [&SMALL[..2], more, &SMALL[2..]].concat();
            let mut command = launcher.each(folder.path(), [&SMALL, &second]);
            let output = command.output().unwrap();
            let said = said(&output);
            assert_eq!(output.status.code(), Some(3), "{said}");
            let line = said.lines().find(|line| line.contains("(rank 1)"));
            assert!(line.is_some_and(|line| line.contains(named)), "{said}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    });
}

#[test]
fn two_hosts_make_the_dataset_that_one_makes() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        let output = launcher.two(folder.path(), &SMALL).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert_eq!(journals(folder.path()), 0);
        let mut words = SMALL.to_vec();
        words.push("--check");
        // Options of several values consume the words that follow.
        words.rotate_right(1);
        words[..3].rotate_left(1);
        let verified = alone(folder.path(), &words);
        assert!(verified.status.success(), "{}", said(&verified));
        let manifest = folder.path().join("data/.stormlp-manifest.json");
        let text = fs::read_to_string(manifest).unwrap();
        assert_eq!(text.matches("img_").count(), 21, "{text}");
        // A removed file is made again, by both.
        let train = folder.path().join("data/train");
        for name in fs::read_dir(&train).unwrap().take(5) {
            fs::remove_file(name.unwrap().path()).unwrap();
        }
        let mut words = vec!["datagen", "unet3d", "--resume"];
        words.extend(&SMALL[2..]);
        let resumed = launcher.two(folder.path(), &words).output().unwrap();
        assert_eq!(resumed.status.code(), Some(0), "{}", said(&resumed));
        assert_eq!(fs::read_dir(&train).unwrap().count(), 21);
        let verified = alone(folder.path(), &["clean", "data"]);
        assert!(verified.status.success(), "{}", said(&verified));
    });
}
