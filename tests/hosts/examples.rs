//! The examples for clusters run as they are, with processes of this machine in place of hosts.
//! `tests/hosts/slurm` runs those for Slurm.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::gds::json;
use crate::launcher::{Launcher, said};

const STORMLP: &str = env!("CARGO_BIN_EXE_stormlp");

/// The report of the only run in `results`.
fn report(folder: &Path, results: &str) -> PathBuf {
    let mut runs = fs::read_dir(folder.join(results)).unwrap();
    runs.next().unwrap().unwrap().path().join("report.json")
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

/// Written by a separate process. A file that this one had open for writing is at times still open
/// in another test's child, and "busy" when it should start.
fn script(path: &Path, text: &str) {
    let mut install = Command::new("install");
    let install = install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut install = install.spawn().unwrap();
    write!(install.stdin.take().unwrap(), "#!/bin/sh\n{text}\n").unwrap();
    assert!(install.wait().unwrap().success());
}

/// A command in `folder` with `stormlp` in its PATH, and `launcher` as the only one. A process for
/// a host of the file `hosts` starts here.
fn command(program: &Path, folder: &Path, launcher: Launcher, hosts: &str) -> Command {
    let programs = folder.join("bin");
    fs::create_dir_all(&programs).unwrap();
    for name in ["mpirun", "mpiexec"] {
        script(&programs.join(name), &format!("exec {} \"$@\"", launcher.program()));
    }
    script(&programs.join("stormlp"), &format!("exec '{STORMLP}' \"$@\""));
    let rsh = folder.join("rsh");
    // Daemons of Open MPI that make one temporary folder at once fail, so each host has a separate
    // one.
    script(&rsh, "TMPDIR=$(mktemp -d); export TMPDIR; shift; exec sh -c \"$*\"");
    fs::write(folder.join("hosts"), hosts).unwrap();
    let mut path = programs.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    command.current_dir(folder).env("PATH", path);
    command.env("TMPDIR", folder).env("HYDRA_LAUNCHER", "fork").env("OMPI_MCA_plm_rsh_agent", rsh);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    for name in ["STORMLP_LIBMPI", "STORMLP_LIBPMIX", "STORMLP_RESULTS_DIR"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn one_process_starts_on_each_host_of_a_hostfile() {
    Launcher::under_each(|launcher| {
        let folder = tempfile::tempdir().unwrap();
        let hosts = "# two of them\nh1 # first\n\nh2\nh1\n";
        let mut command = command(&example("mpi/run"), folder.path(), launcher, hosts);
        let output = command.args(["hosts", "stormlp", "doctor", "--format", "json"]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{launcher:?}: {}", said(&output));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["group"]["size"], 2, "{launcher:?}");
    });
}

/// The strings in the list at `place` of a manifest.
fn words(manifest: &str, place: &str) -> Vec<String> {
    let manifest = fs::read_to_string(example(manifest)).unwrap();
    let manifest: Value = serde_yaml::from_str(&manifest).unwrap();
    let words = manifest.pointer(place).unwrap().as_array().unwrap();
    words.iter().map(|word| word.as_str().unwrap().to_string()).collect()
}

/// The jobs mount the claim that claim.yaml makes, and copies come from it.
#[test]
fn all_pods_mount_the_same_claim() {
    let claimed = |name: &str| {
        let text = fs::read_to_string(example("kubernetes").join(name)).unwrap();
        text.matches("persistentVolumeClaim: {claimName: storage-under-test}").count()
    };
    let claim = fs::read_to_string(example("kubernetes/claim.yaml")).unwrap();
    let mut parts = claim.split("---\n").map(|part| serde_yaml::from_str::<Value>(part).unwrap());
    assert_eq!(parts.next().unwrap()["metadata"]["name"], "storage-under-test");
    assert_eq!(parts.next().unwrap()["metadata"]["name"], "files");
    assert_eq!(["claim.yaml", "indexed-job.yaml", "mpi-job.yaml"].map(claimed), [1; 3]);
}

/// Each pod has its index in the environment, which Kubernetes fills into its arguments.
#[test]
fn the_pods_of_the_indexed_job_are_runs_that_are_shown_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let places: Vec<PathBuf> = (0..4)
        .map(|index| {
            let mut pod = Command::new(STORMLP);
            pod.current_dir(folder.path()).env_remove("STORMLP_RESULTS_DIR");
            for word in
                words("kubernetes/indexed-job.yaml", "/spec/template/spec/containers/0/args")
            {
                pod.arg(word.replace("$(INDEX)", &index.to_string()).replace("/data/", ""));
            }
            let short = ["--path=cpu", "--duration=0.1s", "--file-size=1M"];
            let output = pod.args(short).output().unwrap();
            assert!(output.status.success(), "{}", said(&output));
            report(folder.path(), &format!("results-{index}"))
        })
        .collect();
    let mut report = Command::new(STORMLP);
    let output =
        report.args(["report", "show"]).args(&places).args(["--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reports = reports.as_array().unwrap();
    assert_eq!(reports.len(), 4);
    assert!(reports.iter().all(|one| one["cells"].as_array().unwrap().len() == 1), "{reports:#?}");
}

/// The MPI operator names the hosts in a file that Open MPI finds by its environment.
#[test]
fn the_mpi_job_is_one_training_on_four_hosts() {
    if !Launcher::found().contains(&Launcher::OpenMpi) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let container = "/spec/mpiReplicaSpecs/Launcher/template/spec/containers/0";
    let program = words("kubernetes/mpi-job.yaml", &format!("{container}/command")).remove(0);
    let mut command =
        command(Path::new(&program), folder.path(), Launcher::OpenMpi, "h1\nh2\nh3\nh4\n");
    command.env("OMPI_MCA_orte_default_hostfile", folder.path().join("hosts"));
    for word in words("kubernetes/mpi-job.yaml", &format!("{container}/args")) {
        // The dataset would be 2 TB.
        let word = if word.starts_with("--dir=") { "--path=null" } else { &word };
        command.arg(word.replace("/data/", ""));
    }
    let output = command.args(["--steps", "3", "--epochs", "1"]).output().unwrap();
    // A loaded machine may miss the AU.
    let runs = fs::read_dir(folder.path().join("results"));
    assert!(runs.is_ok_and(|runs| runs.count() == 1), "{}", said(&output));
    let whole = json(&report(folder.path(), "results"));
    assert_eq!(whole["hosts"].as_array().unwrap().len(), 4, "{}", said(&output));
    assert_eq!(whole["epochs"][0]["accelerators"].as_array().unwrap().len(), 32);
}
