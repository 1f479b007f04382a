//! What the harness itself costs: the few operations that run once for every transfer or for
//! every cell. `cargo bench` measures them, CI runs each once so that they do not rot.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use stormlp_model::histogram::LatencyHistogram;
use stormlp_model::units::{ByteSize, parse_size_sweep};

/// Recording is done once for every transfer: it bounds how many transfers a core can time.
fn record(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("histogram");
    group.throughput(Throughput::Elements(1));
    let mut histogram = LatencyHistogram::new();
    let mut latency_ns = 1_000u64;
    group.bench_function("record", |bencher| {
        bencher.iter(|| {
            // Walks over the decades from a microsecond to a second.
            latency_ns = latency_ns * 7 % 1_000_000_007;
            histogram.record_ns(black_box(latency_ns));
        });
    });
    group.bench_function("summary", |bencher| {
        bencher.iter(|| black_box(&histogram).summary())
    });
    group.finish();
}

/// Merging is done once for every thread at the end of a cell, before the next may start.
fn merge(criterion: &mut Criterion) {
    let mut thread = LatencyHistogram::new();
    for latency_ns in (1..10_000u64).map(|i| i * 997) {
        thread.record_ns(latency_ns);
    }
    let mut all = LatencyHistogram::new();
    criterion.bench_function("histogram/merge", |bencher| {
        bencher.iter(|| all.merge(black_box(&thread)));
    });
}

fn units(criterion: &mut Criterion) {
    criterion.bench_function("units/size", |bencher| {
        bencher.iter(|| black_box("1.5GiB").parse::<ByteSize>());
    });
    criterion.bench_function("units/sweep", |bencher| {
        bencher.iter(|| parse_size_sweep(black_box("1M:16M:1M")));
    });
}

criterion_group!(benches, record, merge, units);
criterion_main!(benches);
