//! Which block devices may be overwritten.

use super::*;

/// A block device of this content.
fn device(content: DeviceContent) -> TargetInventory {
    let mut inventory = given(FileKind::BlockDevice, 8 * GIB);
    inventory.files[0].device = Some(content);
    inventory
}

/// A block device that carries these.
fn carrying(found: &[&str]) -> TargetInventory {
    device(DeviceContent::Carries(found.iter().map(ToString::to_string).collect()))
}

/// A request to write over devices that carry these.
fn write_over(names: &[&str]) -> MatrixRequest {
    let mut request = on_file();
    request.ops = vec![Operation::Write];
    request.destroy_data = Some(names.iter().map(ToString::to_string).collect());
    request
}

#[test]
fn a_device_in_use_is_refused_whatever_is_named() {
    let inventory = device(DeviceContent::InUse);
    let found = problems(&write_over(&["xfs"]), &inventory);
    assert_eq!(found.cause(), Cause::Machine);
    assert!(found[0].fact.contains("given is in use by the kernel: mounted, or part"), "{found}");
    assert!(found[0].remedy.starts_with("no option overrides"), "{found}");
    let mut reads = on_file();
    reads.ops = vec![Operation::Read];
    assert!(resolve(&reads, &laptop(), &inventory).is_ok(), "reading harms nobody");
    reads.paths = PathChoice::each(&[PathKind::GdsBatch]);
    reads.read_percent = Some(90);
    let found = resolve(&reads, &gpu_server(), &inventory).unwrap_err();
    assert!(found.to_string().contains("in use"), "a mix writes: {found}");
}

#[test]
fn what_a_device_carries_is_overwritten_only_if_named() {
    let inventory = carrying(&["ext4", "gpt"]);
    for names in [&[][..], &["gpt"]] {
        let found = problems(&write_over(names), &inventory);
        assert_eq!(found.cause(), Cause::Plan);
        assert!(found[0].fact.contains("carries ext4 and gpt"), "{found}");
        assert_eq!(found[0].remedy, "add --destroy-data=ext4,gpt if you want that");
    }
    assert!(resolve(&write_over(&["gpt", "ext4"]), &laptop(), &inventory).is_ok());
    let mut without = write_over(&[]);
    without.destroy_data = None;
    assert!(problems(&without, &inventory)[0].remedy.contains("--destroy-data=ext4,gpt"));
    let found = problems(&without, &carrying(&[]));
    assert_eq!(found[0].remedy, "add --destroy-data if you want that");
    let found = problems(&write_over(&[]), &carrying(&["unknown"]));
    assert!(found[0].fact.contains("neither `wipefs` nor `blkid` names it"), "{found}");
    assert!(found[0].remedy.contains("--destroy-data=unknown"), "{found}");
}

#[test]
fn a_name_that_no_device_carries_means_another_device() {
    let found = problems(&write_over(&["xfs"]), &carrying(&[]));
    assert_eq!(found.cause(), Cause::Plan);
    assert!(found[0].fact.contains("--destroy-data=xfs"), "{found}");
    let mut resumed = write_over(&["xfs"]);
    resumed.resumes = true;
    let gone = resolve(&resumed, &laptop(), &carrying(&[]));
    assert!(gone.is_ok(), "its own cells wrote over it");
    let found = problems(&write_over(&["xfs"]), &carrying(&["ext4"]));
    assert!(found.iter().any(|p| p.remedy.contains("given carries ext4")), "{found}");
}

#[test]
fn a_device_that_cannot_be_examined_is_not_written_over() {
    let unexamined = device(DeviceContent::Unexamined("permission denied".to_string()));
    let found = problems(&write_over(&[]), &unexamined);
    assert_eq!(found.cause(), Cause::Machine);
    assert!(found[0].fact.contains("permission denied"), "{found}");
}
