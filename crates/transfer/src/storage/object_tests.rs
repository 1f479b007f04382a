//! Storage and transfers of objects, against a server that fails on purpose.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stormlp_core::evidence::Evidence;
use stormlp_core::operation::Direction;
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_core::verify::Verify;

use super::{Access, Durability, Handle, Kind, RecordedState, Storage, StorageRouter};
use crate::accelerator::HostStandIn;
use crate::drive::{Driver, DriverSet};
use crate::error::TransferError;
use crate::object::{Client, PART_BYTES, Settings};
use crate::paths::PathSpec;
use crate::region::Region;
use crate::transfer::{FileRange, TransferPath};
use stormlp_test_support::{Fault, ObjectServer};

/// Files, and the objects of a server.
fn over(server: &ObjectServer, verify: Verify) -> StorageRouter {
    let settings = Settings::of(&|name| server.variable(name)).unwrap();
    StorageRouter::with(Client::new(settings, verify).unwrap())
}

fn store() -> (ObjectServer, StorageRouter) {
    let server = ObjectServer::default();
    let storage = over(&server, Verify::default());
    (server, storage)
}

fn at(key: &str) -> PathBuf {
    Path::new("s3://bucket").join(key)
}

fn names(storage: &StorageRouter, folder: &str) -> Vec<(String, Kind)> {
    let entries = storage.list(&at(folder)).unwrap();
    entries.iter().map(|one| (one.text().unwrap().to_string(), one.facts.kind)).collect()
}

/// A path with so many buffers of a part's size, and their memory.
fn path(
    storage: &StorageRouter,
    buffers: usize,
) -> Result<(Region, Box<dyn TransferPath>), TransferError> {
    let mut region = Region::new(buffers * PART_BYTES as usize)?;
    let path = storage.path(PathSpec {
        kind: PathKind::S3,
        engine: EngineKind::Psync,
        host: (0..buffers).filter_map(|_| region.carve(PART_BYTES as usize, 4096)).collect(),
        accelerator_buffers: Vec::new(),
        accelerator: Arc::new(HostStandIn),
        submit_batch: 1,
        max_files: 1,
        register_buffers: false,
        page_aligned: false,
    })?;
    Ok((region, path))
}

/// Does `transfers` on the object, in the order given, through one buffer of a part's size.
fn through(
    storage: &StorageRouter,
    handle: Handle,
    direction: Direction,
    transfers: &[(u64, usize)],
    mut with: impl FnMut(&mut [u8]),
) -> Result<(), TransferError> {
    let (_region, path) = path(storage, 1)?;
    let set = DriverSet::new(1);
    let mut driver = Driver::new(path, &set, 0);
    let file = driver.attach(handle)?;
    for (offset, len) in transfers.iter().copied() {
        let mut slot = driver.take_slot().unwrap();
        if direction == Direction::Write {
            with(&mut slot.host_mut().unwrap()[..len]);
        }
        driver.submit(slot, FileRange { direction, file, offset, len }, ())?;
        driver.wait(1)?;
        let mut landed = driver.next_landed().unwrap();
        landed.result?;
        if direction == Direction::Read {
            with(&mut landed.slot.host_mut().unwrap()[..len]);
        }
        driver.put_back(landed.slot);
    }
    Ok(())
}

#[test]
fn keys_are_kept_whatever_is_in_them() {
    let (server, storage) = store();
    for name in ["a b", "a+b", "50%", "100%25", "é€", "x&<y>", "q?#"] {
        let path = at(&format!("p/{name}"));
        storage.write(&path, name.as_bytes(), Durability::Certain).unwrap();
        assert_eq!(server.object(&format!("p/{name}")).as_deref(), Some(name.as_bytes()), "{name}");
        assert_eq!(storage.read_text(&path).unwrap().as_deref(), Some(name));
        assert_eq!(storage.look(&path).unwrap().unwrap().bytes, name.len() as u64);
        assert!(names(&storage, "p").contains(&(name.to_string(), Kind::File)), "{name}");
        assert!(storage.remove(&path).unwrap() && !storage.remove(&path).unwrap());
    }
    assert!(server.keys().is_empty());
}

#[test]
fn a_folder_is_what_keys_have_in_common_however_many_they_are() {
    let (server, storage) = store();
    for number in 0..2500 {
        server.put(&format!("p/train/{number:04}"), b"x");
    }
    server.put("p/list", b"xyz");
    server.put("other", b"x");
    assert_eq!(names(&storage, "p"), [("list".into(), Kind::File), ("train".into(), Kind::Folder)]);
    let all = names(&storage, "p/train");
    assert_eq!((all.len(), all[2499].0.as_str()), (2500, "2499"));
    assert!(storage.is_folder(&at("p")).unwrap());
    assert!(!storage.is_folder(&at("q")).unwrap() && names(&storage, "q").is_empty());
    // Half a name is no folder.
    assert!(!storage.is_folder(&at("oth")).unwrap());
}

#[test]
fn what_may_not_be_looked_at_is_not_taken_for_missing() {
    let (server, storage) = store();
    assert!(storage.look(&at("none")).unwrap().is_none());
    server.trap("HEAD", 1, Fault::Refuse(403, "AccessDenied"));
    let error = storage.look(&at("secret")).unwrap_err();
    assert!(error.to_string().starts_with("HEAD s3://bucket/secret: "), "{error}");
    let error = storage.look(Path::new("s3://another/key")).unwrap();
    assert!(error.is_none(), "HEAD has no document that says more");
    let error = storage.list(Path::new("s3://another/key")).unwrap_err();
    assert!(error.to_string().contains("NoSuchBucket"), "{error}");
}

#[test]
fn an_object_is_known_by_its_content() {
    let (server, storage) = store();
    let path = at("p/one");
    storage.write(&path, b"ours", Durability::Certain).unwrap();
    let made = storage.found(&path).unwrap();
    let left = || storage.left(&path, Some(4), Some(made.identity)).unwrap();
    assert!(matches!(left(), RecordedState::Same(_)));
    // A list shows the same identity.
    assert_eq!(storage.list(&at("p")).unwrap()[0].facts.identity, made.identity);
    server.put("p/one", b"hers");
    assert!(matches!(left(), RecordedState::Other(what) if what.contains("another file")));
}

#[test]
fn parts_become_an_object_once_all_are_there() {
    let (server, storage) = store();
    let part = PART_BYTES as usize;
    let upload = |key: &str, transfers: &[(u64, usize)]| {
        let handle = storage.handle(&at(key), Access::Create, false).unwrap();
        let Handle::Object(object) = &handle else { panic!("it names an object") };
        let upload = object.upload().unwrap();
        let fill = |bytes: &mut [u8]| bytes.fill(7);
        through(&storage, handle, Direction::Write, transfers, fill).unwrap();
        upload
    };
    let large = upload("large", &[(PART_BYTES, part), (2 * PART_BYTES, 5), (0, part)]);
    assert!(server.object("large").is_none());
    assert_eq!(server.pending(), ["large"]);
    large.complete().unwrap();
    assert_eq!(server.object("large").unwrap().len(), 2 * part + 5);
    // One that fits a part needs one request, and needs no clean-up.
    let small = upload("small", &[(0, 100)]);
    small.complete().unwrap();
    assert_eq!(server.object("small").unwrap(), [7; 100]);
    assert!(server.lines().contains(&"PUT /bucket/small?".to_string()));
    // A part that the endpoint lost is found, although it had accepted it.
    server.trap(
        "PUT /bucket/lost?partNumber=2",
        1,
        Fault::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"x\"\r\n\r\n".to_vec()),
    );
    let lost = upload("lost", &[(0, part), (PART_BYTES, part)]);
    let error = lost.complete().unwrap_err().to_string();
    assert!(error.contains("s3://bucket/lost") && error.contains("bytes"), "{error}");
    drop(upload("given up", &[(0, part)]));
    assert!(server.pending().is_empty(), "{:?}", server.pending());
}

/// Does all of `transfers` on the object over as many connections as there are transfers.
fn at_once(
    storage: &StorageRouter,
    handle: Handle,
    direction: Direction,
    transfers: &[(u64, usize)],
) -> Result<Evidence, TransferError> {
    let (_region, path) = path(storage, transfers.len())?;
    let set = DriverSet::new(1);
    let mut driver = Driver::new(path, &set, 0);
    let file = driver.attach(handle)?;
    for (offset, len) in transfers.iter().copied() {
        let mut slot = driver.take_slot().unwrap();
        slot.host_mut().unwrap()[..len].fill(offset as u8 | 1);
        driver.submit(slot, FileRange { direction, file, offset, len }, ())?;
    }
    let mut outcome = Ok(());
    while driver.in_flight() > 0 {
        driver.wait(1)?;
        while let Some(landed) = driver.next_landed() {
            outcome = outcome.and(landed.result.map(drop));
            driver.put_back(landed.slot);
        }
    }
    outcome?;
    driver.detach(file)?;
    Ok(driver.evidence())
}

#[test]
fn transfers_in_flight_have_a_connection_each() {
    let (server, storage) = store();
    let part = PART_BYTES as usize;
    let parts = [(2 * PART_BYTES, 9), (PART_BYTES, part), (0, part)];
    let create = |key: &str| {
        let handle = storage.handle(&at(key), Access::Create, false).unwrap();
        let Handle::Object(object) = &handle else { panic!("it names an object") };
        let upload = object.upload().unwrap();
        (handle, upload)
    };
    server.trap("partNumber", 3, Fault::Late(Duration::from_millis(500)));
    let (handle, upload) = create("large");
    let evidence = at_once(&storage, handle, Direction::Write, &parts).unwrap();
    assert_eq!(server.most_at_once(), 3);
    assert_eq!(evidence.object_store.unwrap().connections, 3);
    upload.complete().unwrap();
    assert_eq!(server.object("large").unwrap().len(), 2 * part + 9);

    let (handle, upload) = create("refused");
    server.trap("partNumber=2", 1, Fault::Refuse(403, "AccessDenied"));
    let error = at_once(&storage, handle, Direction::Write, &parts).unwrap_err().to_string();
    assert!(error.contains("upload part 2 of s3://bucket/refused at byte 16777216"), "{error}");
    assert_eq!(server.pending(), ["refused"]);
    drop(upload);
    assert!(server.pending().is_empty(), "{:?}", server.pending());

    // All ranges that are read must be of one object, also those that were asked for together.
    let ranges = [(0, 9), (9, 9)];
    let read = || storage.known_object(&at("large"), server.object("large").unwrap().len() as u64);
    at_once(&storage, read().unwrap(), Direction::Read, &ranges).unwrap();
    let other = "HTTP/1.1 206 P\r\nContent-Length: 9\r\nETag: \"x\"\r\n\
                 Content-Range: bytes 0-8/33554441\r\n\r\n123456789";
    server.trap("GET", 1, Fault::Raw(other.into()));
    let ranges = [(0, 9), (0, 9)];
    let error = at_once(&storage, read().unwrap(), Direction::Read, &ranges).unwrap_err();
    assert!(error.to_string().contains("another object is there"), "{error}");
}

#[test]
fn a_connection_that_panics_is_an_error_and_no_wait_without_end() {
    let (server, storage) = store();
    server.put("key", b"12345678");
    let (_region, path) = path(&storage, 2).unwrap();
    let set = DriverSet::new(1);
    let mut driver = Driver::new(path, &set, 0);
    let file = driver.attach(storage.known_object(&at("key"), 8).unwrap()).unwrap();
    let slot = driver.take_slot().unwrap();
    // More than a buffer has.
    let len = 2 * PART_BYTES as usize;
    let place = FileRange { direction: Direction::Read, file, offset: 0, len };
    driver.submit(slot, place, ()).unwrap();
    for _ in 0..2 {
        let error = driver.wait(1).unwrap_err().to_string();
        assert!(error.starts_with("a connection failed: "), "{error}");
    }
}

#[test]
fn checksums_of_parts_make_up_that_of_the_object() {
    let server = ObjectServer::default();
    let storage = over(&server, Verify::Crc);
    let part = PART_BYTES as usize;
    let handle = storage.handle(&at("large"), Access::Create, false).unwrap();
    let Handle::Object(object) = &handle else { panic!("it names an object") };
    let upload = object.upload().unwrap();
    let parts = [(2 * PART_BYTES, 9), (0, part), (PART_BYTES, part)];
    let sent = at_once(&storage, handle, Direction::Write, &parts).unwrap();
    let sent = sent.object_store.unwrap().checksums.unwrap();
    assert_eq!((sent.checked_bytes, sent.responses_unverified), (2 * PART_BYTES + 9, 0));
    // The server refuses a wrong one.
    upload.complete().unwrap();
    // Parts have no separate checksum when they are read, but make up the object.
    let read = |parts: &[(u64, usize)]| {
        let handle = storage.handle(&at("large"), Access::Read, false).unwrap();
        let found = at_once(&storage, handle, Direction::Read, parts)?.object_store.unwrap();
        let found = found.checksums.unwrap();
        Ok::<_, TransferError>((found.checked_bytes, found.responses_unverified))
    };
    assert_eq!(read(&parts).unwrap(), (2 * PART_BYTES + 9, 0));
    assert_eq!(read(&parts[1..]).unwrap(), (0, 2));
    // Ranges need not be parts.
    let ranges = [(PART_BYTES + 5, part), (0, 5), (5, part), (2 * PART_BYTES + 5, 4)];
    assert_eq!(read(&ranges).unwrap(), (2 * PART_BYTES + 9, 0));
    server.trap("GET", 1, Fault::Corrupt);
    let error = read(&parts).unwrap_err().to_string();
    assert!(error.contains("GET s3://bucket/large at byte 0: its CRC64NVME is"), "{error}");

    let small = storage.handle(&at("small"), Access::Create, false).unwrap();
    at_once(&storage, small, Direction::Write, &[(0, 9)]).unwrap();
    let read = || {
        let handle = storage.known_object(&at("small"), 9).unwrap();
        at_once(&storage, handle, Direction::Read, &[(0, 9)])
    };
    let found = read().unwrap().object_store.unwrap().checksums.unwrap();
    assert_eq!((found.checked_bytes, found.responses_unverified), (9, 0));
    server.trap("GET", 1, Fault::Corrupt);
    let error = read().unwrap_err().to_string();
    assert!(error.contains("GET s3://bucket/small at byte 0: its CRC64NVME is"), "{error}");
}

#[test]
fn reads_are_of_one_object_to_the_end() {
    let (server, storage) = store();
    server.put("key", &[1; 3000]);
    let read = |transfers: &[(u64, usize)], mut then: Box<dyn FnMut()>| {
        let handle = storage.known_object(&at("key"), 3000).unwrap();
        through(&storage, handle, Direction::Read, transfers, move |_| then())
    };
    read(&[(0, 1000), (1000, 2000)], Box::new(|| ())).unwrap();
    let before = server.lines().iter().filter(|line| line.starts_with("HEAD")).count();
    assert_eq!(before, 0, "nothing is asked that the list has told");
    let fails = |transfers: &[(u64, usize)], expected: &str| {
        let error = read(transfers, Box::new(|| ())).unwrap_err().to_string();
        assert!(error.contains("GET s3://bucket/key at byte"), "{error}");
        assert!(error.contains(expected), "{error}");
    };
    // Not once, which is a lost connection, but again and again.
    server.trap("GET", 6, Fault::Cut(10));
    fails(&[(0, 1000)], "the body ended after 990 of 1000 bytes");
    server.trap("GET", 1, Fault::Ignore);
    fails(&[(0, 1000)], "the body has 0 bytes, not 1000");
    server.put("key", &[1; 4000]);
    fails(&[(0, 1000)], "it has 4000 bytes, not 3000");
    // Another object of the same size, between two ranges.
    server.put("key", &[1; 3000]);
    let handle = storage.known_object(&at("key"), 3000).unwrap();
    let swap = |_: &mut [u8]| server.put("key", &[2; 3000]);
    let error = through(&storage, handle, Direction::Read, &[(0, 1000), (1000, 1000)], swap);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("at byte 1000: another object is there: ETag"), "{error}");
}

#[test]
fn an_endpoint_that_dies_in_the_run_is_named_with_the_object() {
    let (server, storage) = store();
    server.put("key", &[1; 3000]);
    let handle = storage.handle(&at("key"), Access::Read, false).unwrap();
    server.trap("GET", usize::MAX, Fault::Hang);
    let error = through(&storage, handle, Direction::Read, &[(0, 1000)], |_| ()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("s3://bucket/key at byte 0: http://127.0.0.1"), "{text}");
    assert!(error.is_device_failure());
    // The first attempt and five retries.
    assert_eq!(server.lines().iter().filter(|line| line.starts_with("GET")).count(), 6);
}

#[test]
fn uploads_of_killed_runs_are_aborted_if_they_are_ours() {
    let (server, storage) = store();
    for key in ["p/ours", "p/train/a b+%é", "p/theirs", "q/ours"] {
        server.leave_upload(key);
    }
    let ours = |path: &Path| path != at("p/theirs");
    assert_eq!(storage.abort_uploads(&at("p"), &ours, true).unwrap(), 2);
    assert_eq!(server.pending().len(), 4);
    assert_eq!(storage.abort_uploads(&at("p"), &ours, false).unwrap(), 2);
    assert_eq!(server.pending(), ["p/theirs", "q/ours"]);
}
