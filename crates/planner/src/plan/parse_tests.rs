//! Parsing of `--storage`.

use proptest::prelude::*;

use super::*;
use crate::plan::storage::DeviceFigures;

fn parse(text: &str) -> StorageModel {
    text.parse().unwrap_or_else(|problems| panic!("{text}: {problems}"))
}

fn refused(text: &str) -> String {
    let problems = text.parse::<StorageModel>().unwrap_err();
    let help: Vec<&str> = problems.iter().map(|problem| &*problem.remedy).collect();
    format!("{problems} | {}", help.join(" | "))
}

#[test]
fn figures_are_parsed() {
    let storage = parse("read=14.5GB/s,write=10GB/s,iops=2.8M,latency=80us,queue=1024");
    assert_eq!(
        storage.device,
        DeviceFigures {
            read_bytes_per_second: 14.5e9,
            write_bytes_per_second: Some(10e9),
            reads_per_second: Some(2.8e6),
            writes_per_second: None,
            latency_seconds: 80e-6,
            queue_depth: Some(1024),
        }
    );
    assert_eq!(storage.devices, 1);
    let stripe = parse("4x:read=550MB/s,latency=100us,stripe=128K");
    assert_eq!((stripe.devices, stripe.stripe_bytes), (4, Some(128 << 10)));
    assert_eq!(stripe.read_bytes_per_second(), 2.2e9);
    let far = parse("read=10GB/s,round-trip=50us,link=25GB/s,cache=200GiB");
    let link = Link { bytes_per_second: 25e9, round_trip_seconds: 50e-6 };
    assert_eq!((far.link, far.cache_bytes), (Some(link), Some(200 << 30)));
}

#[test]
fn an_object_store_has_connections() {
    let storage = parse("read=40GB/s,latency=20ms,connection=90MB/s,connections=64,link=12.5GB/s");
    let connections = Connections { bytes_per_second: 90e6, number: Some(64) };
    assert_eq!(storage.connections, Some(connections));
    let any = parse("read=40GB/s,latency=1ms,connection=1GB/s").connections.unwrap();
    assert_eq!((any.bytes_per_second, any.number), (1e9, None));
}

#[test]
fn figures_override_a_preset() {
    let storage = parse("8x:solidigm-d7-ps1010,latency=60us");
    assert_eq!(storage.devices, 8);
    assert_eq!(storage.device.read_bytes_per_second, 14.5e9);
    assert_eq!(storage.device.latency_seconds, 60e-6);
}

#[test]
fn every_problem_names_its_key_and_position() {
    let message = refused("read=14.5GB/s,lattency=80us,queue=0,iops=many");
    for part in [
        "3 problems",
        "character 15: `lattency` is not a storage key; did you mean `latency`?",
        "character 29: queue=0: expected a whole number above 0",
        "character 37: iops=many: expected a number",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn invalid_storage_is_rejected() {
    for (text, part) in [
        ("", "read bandwidth is missing"),
        ("latency=80us", "read bandwidth is missing"),
        ("read=0", "character 1: read=0: must be above 0"),
        ("read=14", "character 1: read=14: missing unit: 14GB/s or 14MB/s"),
        ("read=14GB/s,link=25/s", "link=25/s: missing unit"),
        ("read=-5GB/s", "is not a size"),
        ("read=1GB/s,latency=-1us", "is not a duration"),
        ("read=1GB/s,latency=80", "missing unit"),
        ("read=1GB/s,latency=2h", "at most a minute"),
        ("read=1GB/s,,queue=1", "character 12: empty item"),
        ("read=1GB/s,fast", "`fast` is not KEY=VALUE"),
        ("read=1GB/s,read=2GB/s", "duplicate key read"),
        ("0x:read=1GB/s", "character 1: `0` is not a number of devices"),
        ("read=1GB/s,stripe=64K", "stripe has no effect with one device"),
        ("read=1GB/s,round-trip=1ms", "round-trip needs link"),
        ("read=1GB/s,iops=10M", "contradict each other"),
        ("read=14.5GB/s,iops=100", "contradict each other"),
        ("fast-drive", "there is no preset `fast-drive`"),
        ("read=99999999TB/s", "too large"),
        ("read=1GB/s,latency=1ms,connections=8", "connections needs connection"),
        ("read=1GB/s,connection=90MB/s,connections=0", "expected a whole number above 0"),
        ("read=1GB/s,connection=90MB/s", "the latency of the object store is missing"),
        ("read=1GB/s,connection=0", "must be above 0"),
        (
            "read=1GB/s,latency=1ms,connection=90MB/s,cache=1GiB",
            "an object store, and cache of files",
        ),
        (
            "2x:read=1GB/s,latency=1ms,connection=1GB/s,stripe=1M",
            "object store, and stripe of files",
        ),
        ("2x/host:read=1GB/s,latency=1ms,connection=90MB/s", "object store, and Nx/host: of files"),
    ] {
        let message = refused(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

prop_compose! {
    fn figures()(
        read in 1_000_000u64..1_000_000_000_000,
        write in prop::option::of(1u64..1_000_000_000_000),
        latency_ns in 0u64..60_000_000_000,
        queue_depth in prop::option::of(1u32..100_000),
        // Between bandwidth / 16 MiB and bandwidth / 4 KiB.
        rate in prop::option::of(0.0f64..1.0),
    ) -> DeviceFigures {
        let (least, most) = (read as f64 / 16e6, read as f64 / 4096.0);
        DeviceFigures {
            read_bytes_per_second: read as f64,
            write_bytes_per_second: write.map(|bytes| bytes as f64),
            reads_per_second: rate.map(|at| (least + at * (most - least)).round().max(1.0)),
            writes_per_second: None,
            latency_seconds: std::time::Duration::from_nanos(latency_ns).as_secs_f64(),
            queue_depth,
        }
    }
}

proptest! {
    #[test]
    fn printed_storage_can_be_parsed_again(
        device in figures(),
        devices in 1u32..=MAX_DEVICES,
        stripe in prop::option::of(LEAST_STRIPE_BYTES..1 << 40),
        link in prop::option::of((1u64..1_000_000_000_000, 0u64..60_000_000_000)),
        cache_bytes in prop::option::of(1u64..1 << 49),
        read_ahead_bytes in prop::option::of(0u64..1 << 40),
    ) {
        let storage = StorageModel {
            devices,
            is_per_host: false,
            device,
            stripe_bytes: stripe.filter(|_| devices > 1),
            link: link.map(|(rate, ns)| Link {
                bytes_per_second: rate as f64,
                round_trip_seconds: std::time::Duration::from_nanos(ns).as_secs_f64(),
            }),
            connections: None,
            cache_bytes,
            read_ahead_bytes,
            surface: None,
            measured_objects: false,
        };
        let text = storage.to_string();
        prop_assert_eq!(text.parse::<StorageModel>(), Ok(storage), "{}", text);
    }

    #[test]
    fn printed_object_stores_can_be_parsed_again(
        device in figures(),
        devices in 1u32..=MAX_DEVICES,
        bytes in 1u64..1_000_000_000_000,
        number in prop::option::of(1u32..100_000),
    ) {
        let connections = Some(Connections { bytes_per_second: bytes as f64, number });
        let latency_seconds = device.latency_seconds.max(1e-6);
        let device = DeviceFigures { latency_seconds, ..device };
        let one = StorageModel::of_bandwidth(1.0);
        let storage = StorageModel { devices, device, connections, ..one };
        let text = storage.to_string();
        prop_assert_eq!(text.parse::<StorageModel>(), Ok(storage), "{}", text);
    }

    #[test]
    fn any_text_is_parsed_or_rejected(text in "([0-9]x:)?([a-z-]{1,8}=?[0-9.a-zA-Z/]{0,6},?){0,4}|.{0,40}") {
        let _ = text.parse::<StorageModel>();
    }
}
