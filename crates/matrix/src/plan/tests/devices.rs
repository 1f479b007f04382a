//! Which block devices may be overwritten.

use super::*;
use stormlp_core::machine::Signature;

/// A block device with these users and signatures.
fn device(users: &[&str], signatures: &[(&str, &str)]) -> TargetInventory {
    let mut inventory = given(FileKind::BlockDevice, 8 * GIB);
    let signature = |(name, device): &(&str, &str)| Signature {
        name: (*name).to_string(),
        device: (*device).to_string(),
    };
    inventory.files[0].claims = Some(DeviceClaims {
        users: users.iter().map(ToString::to_string).collect(),
        signatures: signatures.iter().map(signature).collect(),
        unexamined: None,
    });
    inventory
}

/// A request to write with the flag and these named signatures.
fn write_over(names: &[&str]) -> MatrixRequest {
    let mut request = on_file();
    request.ops = vec![Operation::Write];
    request.overwrite_block_devices = true;
    request.overwrite_signatures = names.iter().map(ToString::to_string).collect();
    request
}

#[test]
fn a_device_in_use_is_refused_whatever_is_named() {
    let inventory = device(&["sdb1 is mounted at /data (xfs)"], &[("xfs", "sdb1")]);
    let found = problems(&write_over(&["xfs"]), &inventory);
    assert_eq!(found.cause(), Cause::Machine);
    assert!(found[0].fact.contains("given is in use"), "{found}");
    assert!(found[0].fact.contains("mounted at /data"), "{found}");
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
fn an_unused_signature_is_overwritten_only_if_named() {
    let inventory = device(&[], &[("gpt", "sdb"), ("ext4", "sdb1")]);
    let found = problems(&write_over(&[]), &inventory);
    assert_eq!(found.cause(), Cause::Plan);
    assert!(found[0].fact.contains("carries gpt on sdb, ext4 on sdb1"), "{found}");
    assert!(found[0].remedy.contains("--overwrite-signature gpt,ext4"), "{found}");
    let found = problems(&write_over(&["gpt"]), &inventory);
    assert!(found[0].remedy.contains("--overwrite-signature gpt,ext4"), "{found}");
    assert!(resolve(&write_over(&["ext4", "gpt"]), &laptop(), &inventory).is_ok());
    let mut unflagged = write_over(&[]);
    unflagged.overwrite_block_devices = false;
    let found = problems(&unflagged, &inventory);
    assert_eq!(
        found[0].remedy,
        "add --destroy-data-on-block-devices --overwrite-signature gpt,ext4 if that is what you want"
    );
}

#[test]
fn a_name_that_no_device_carries_means_another_device() {
    let found = problems(&write_over(&["xfs"]), &device(&[], &[]));
    assert_eq!(found.cause(), Cause::Plan);
    assert!(found[0].fact.contains("--overwrite-signature xfs"), "{found}");
    let mut resumed = write_over(&["xfs"]);
    resumed.resumes = true;
    let gone = resolve(&resumed, &laptop(), &device(&[], &[]));
    assert!(gone.is_ok(), "its own cells wrote over it");
    let found = problems(&write_over(&["xfs"]), &device(&[], &[("ext4", "sdb")]));
    assert!(found.iter().any(|p| p.remedy.contains("given carries ext4 on sdb")), "{found}");
}

#[test]
fn a_device_that_cannot_be_examined_is_not_written_over() {
    let mut inventory = device(&[], &[]);
    inventory.files[0].claims.as_mut().unwrap().unexamined = Some("no /sys".to_string());
    let found = problems(&write_over(&[]), &inventory);
    assert_eq!(found.cause(), Cause::Machine);
    assert!(found[0].fact.contains("no /sys"), "{found}");
    inventory.files[0].claims = None;
    assert_eq!(problems(&write_over(&[]), &inventory).cause(), Cause::Machine);
}
