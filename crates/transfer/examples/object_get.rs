//! The cost of a GET: reads one object again and again over one connection and prints GiB/s and CPU
//! seconds per GiB. `cargo run --release --example object_get -- BUCKET KEY BYTES COUNT`, with the
//! endpoint and credentials in the environment.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use stormlp_core::verify::Verify;
use stormlp_transfer::object::{Client, Get, Settings};
use stormlp_transfer::telemetry::CpuTimes;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bucket, key, bytes, count] = arguments.as_slice() else {
        return Err(
            "usage: object_get BUCKET KEY BYTES COUNT, BYTES being the size of the object".into()
        );
    };
    let (bytes, count): (usize, u32) = (bytes.parse()?, count.parse()?);
    let mut session = Client::new(Settings::of_user()?, Verify::default())?.session(bucket)?;
    let mut buffer = vec![0; bytes];
    let get = Get { key, offset: 0, object_bytes: bytes as u64, etag: None };
    session.get(get, &mut buffer)?;
    let (begun, cpu) = (Instant::now(), CpuTimes::of_process());
    for _ in 0..count {
        session.get(get, &mut buffer)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = CpuTimes::of_process().since(cpu);
    let gib = bytes as f64 * f64::from(count) / f64::from(1 << 30);
    println!("{:.2} GiB/s; CPU a GiB: {cpu:?} for {gib:.2} GiB", gib / seconds);
    println!("{:?}", session.evidence());
    Ok(())
}
