//! How threads wait and where they are: options, refusals and reports.

use crate::gds::{folder, gds, read_json, saved};
use crate::{checkpoint, stderr, train};

const CELL: &str =
    "--path cpu-gpu --device host --io-size 64K --threads 2 --file-size 1M --duration 1x";

#[test]
fn threads_are_bound_to_the_given_cpus_as_reported() {
    let folder = folder();
    gds(folder.path(), &format!("{CELL} --tune cpus=0")).assert().success();
    let report = read_json(&saved(folder.path()));
    assert_eq!(report["plan"]["placement"]["cpus"], "0");
    assert_eq!(report["plan"]["thread_groups"][0]["workers"][1]["cpus"], "0");
    assert_eq!(report["cells"][0]["status"], "ok");
    assert_eq!(report["plan"]["cells"][0]["wait"], "block");
}

#[test]
fn cpus_and_nodes_that_are_not_there_are_refused() {
    let folder = folder();
    let refused =
        |words: &str| stderr(gds(folder.path(), &format!("{CELL} {words}")).assert().code(4));
    let said = refused("--tune cpus=60000");
    assert!(said.contains("--tune cpus=60000: this process may run on"), "{said}");
    assert!(refused("--tune numa=4096").contains("NUMA node 4096"));
    let usage =
        |words: &str| stderr(gds(folder.path(), &format!("{CELL} {words}")).assert().code(2));
    assert!(usage("--tune cpus=3-1").contains("not a list of CPUs"));
    assert!(usage("--tune numa=near").contains("use auto, off or a node number"));
    assert!(usage("--tune wait=long").contains("use spin or block"));
}

#[test]
fn options_without_effect_on_a_path_are_refused_and_on_a_machine_reported() {
    let folder = folder();
    let said = stderr(gds(folder.path(), "--path cpu --tune wait=spin").assert().code(2));
    assert!(said.contains("--tune wait has no effect"), "{said}");
    gds(folder.path(), &format!("{CELL} --tune wait=spin")).assert().success();
    let report = read_json(&saved(folder.path()));
    let message = report["warnings"].to_string();
    assert!(message.contains("--tune wait=spin has no effect: no GPU is used"), "{message}");
    let said = stderr(train::train(folder.path(), "unet3d --require gds").assert().code(2));
    assert!(said.contains("--require gds has no effect with --path buffered"), "{said}");
    let folder = checkpoint::folder();
    let mut command = checkpoint::tiny(folder.path(), &["--path", "cpu-gpu", "--require", "gds"]);
    let said = stderr(command.assert().code(2));
    assert!(said.contains("--require gds has no effect with --path cpu-gpu"), "{said}");
}
