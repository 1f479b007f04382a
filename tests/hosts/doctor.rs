//! `stormlp doctor` under a launcher, and mismatches between hosts.

use serde_json::Value;

use crate::launcher::{Launcher, said};

#[test]
fn the_doctor_lists_the_hosts() {
    let folder = tempfile::tempdir().unwrap();
    for launcher in Launcher::found() {
        for backend in launcher.backends() {
            let asked = ["doctor", "--format", "json"];
            let mut command = launcher.two(folder.path(), &asked);
            let output = command.env("STORMLP_GROUP", backend).output().unwrap();
            assert!(output.status.success(), "{backend}: {}", said(&output));
            // One process speaks for all.
            let told: Value = serde_json::from_slice(&output.stdout).unwrap();
            let group = &told["group"];
            assert_eq!(group["backend"], backend);
            assert_eq!(group["size"], 2);
            assert!(group["empty_barrier_us"]["p50"].as_f64().unwrap() > 0.0);
            let members = group["members"].as_array().unwrap();
            let ranks: Vec<_> = members.iter().map(|member| &member["rank"]).collect();
            assert_eq!(ranks, [0, 1]);
            assert_eq!(members[0]["boot_id"], members[1]["boot_id"]);
            assert_eq!(group["folder"]["verdict"], "shared");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}

#[test]
fn a_library_of_another_launcher_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let found = Launcher::found();
    if found.len() < 2 {
        return stormlp_fixtures::skipped(
            "it takes two kinds of MPI",
            "install openmpi-bin and mpich",
        );
    }
    let others = [(Launcher::OpenMpi, "libmpich.so.12"), (Launcher::Hydra, "libmpi.so.40")];
    for (launcher, library) in others {
        let mut command = launcher.two(folder.path(), &["doctor"]);
        command.env("STORMLP_GROUP", "mpi");
        let output = command.env("STORMLP_LIBMPI", library).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("started 2 processes"), "{said}");
        assert!(said.contains("sees only this one"), "{said}");
    }
}

#[test]
fn a_command_for_one_process_does_not_run_twice() {
    let folder = tempfile::tempdir().unwrap();
    for launcher in Launcher::found() {
        let asked = ["datagen", "unet3d", "--dir", "d", "--check"];
        let output = launcher.two(folder.path(), &asked).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("`stormlp datagen --check` is for one"), "{said}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn single_host_commands_do_not_run_twice() {
    let folder = tempfile::tempdir().unwrap();
    let commands: [&[&str]; 4] = [
        &["workloads"],
        &["report", "."],
        &["compare", ".", "."],
        &["generate", "completions", "bash"],
    ];
    for launcher in Launcher::found() {
        for asked in commands {
            let output = launcher.two(folder.path(), asked).output().unwrap();
            let said = said(&output);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert_eq!(said.matches("is for one").count(), 1, "{said}");
        }
        let mut command = launcher.two(folder.path(), &["workloads"]);
        let output = command.env("STORMLP_GROUP", "none").output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
}

#[test]
fn two_commands_are_distinguished() {
    let folder = tempfile::tempdir().unwrap();
    for launcher in Launcher::found() {
        let mut command = launcher.each(folder.path(), [&["doctor"], &["gds", "--path", "null"]]);
        let output = command.output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert_eq!(said.matches("differ in the command: ").count(), 1, "{said}");
    }
}
