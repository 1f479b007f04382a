//! The gauges of each command's reports.

use stormlp_core::report::ReportKind;

/// A gauge derived from a record column.
pub(super) struct Family {
    pub(super) name: &'static str,
    /// The unit, used as the suffix of the name.
    pub(super) unit: &'static str,
    pub(super) help: &'static str,
    pub(super) column: &'static str,
    /// The factor applied to the column's values.
    pub(super) scale: f64,
}

const fn family(
    (name, unit): (&'static str, &'static str),
    column: &'static str,
    scale: f64,
    help: &'static str,
) -> Family {
    Family { name, unit, help, column, scale }
}

const US: f64 = 1e-6;
const MS: f64 = 1e-3;
const PERCENT: f64 = 0.01;
const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1_073_741_824.0;

const GDS: &[Family] = &[
    family(
        ("stormlp_gds_throughput_bytes_per_second", "bytes_per_second"),
        "throughput_bytes_per_second",
        1.0,
        "Bytes moved per second in the measured time of a cell.",
    ),
    family(
        ("stormlp_gds_transfers_per_second", "transfers_per_second"),
        "iops",
        1.0,
        "Transfers completed per second in the measured time of a cell.",
    ),
    family(
        ("stormlp_gds_latency_mean_seconds", "seconds"),
        "latency_us_mean",
        US,
        "Mean time from submitting a transfer to its completion.",
    ),
    family(("stormlp_gds_latency_p50_seconds", "seconds"), "latency_us_p50", US, "Median latency."),
    family(
        ("stormlp_gds_latency_p99_seconds", "seconds"),
        "latency_us_p99",
        US,
        "99th percentile of latency.",
    ),
    family(
        ("stormlp_gds_latency_p999_seconds", "seconds"),
        "latency_us_p999",
        US,
        "99.9th percentile of latency.",
    ),
    family(
        ("stormlp_gds_latency_max_seconds", "seconds"),
        "latency_us_max",
        US,
        "Maximum latency.",
    ),
    family(
        ("stormlp_gds_read_bytes_per_second", "bytes_per_second"),
        "read_throughput_bytes_per_second",
        1.0,
        "Bytes read per second in a mix of reads and writes.",
    ),
    family(
        ("stormlp_gds_write_bytes_per_second", "bytes_per_second"),
        "write_throughput_bytes_per_second",
        1.0,
        "Bytes written per second in a mix of reads and writes.",
    ),
    family(
        ("stormlp_gds_reads_per_second", "reads_per_second"),
        "read_iops",
        1.0,
        "Reads completed per second in a mix of reads and writes.",
    ),
    family(
        ("stormlp_gds_writes_per_second", "writes_per_second"),
        "write_iops",
        1.0,
        "Writes completed per second in a mix of reads and writes.",
    ),
    family(
        ("stormlp_gds_read_latency_p99_seconds", "seconds"),
        "read_latency_us_p99",
        US,
        "99th percentile of the latency of reads in a mix of reads and writes.",
    ),
    family(
        ("stormlp_gds_write_latency_p99_seconds", "seconds"),
        "write_latency_us_p99",
        US,
        "99th percentile of the latency of writes in a mix of reads and writes.",
    ),
    family(
        ("stormlp_gds_cpu_seconds_per_gibibyte", "seconds_per_gibibyte"),
        "cpu_seconds_per_gib",
        1.0,
        "CPU time of the process for each GiB moved.",
    ),
    family(
        ("stormlp_gds_page_cache_ratio", "ratio"),
        "page_cache_share",
        1.0,
        "Share of the files in the page cache before the cell.",
    ),
    family(
        ("stormlp_gds_first_byte_mean_seconds", "seconds"),
        "first_byte_us_mean",
        US,
        "Mean time from sending a GET of an object to the head of its reply.",
    ),
    family(
        ("stormlp_gds_first_byte_p50_seconds", "seconds"),
        "first_byte_us_p50",
        US,
        "Median time from sending a GET of an object to the head of its reply.",
    ),
    family(
        ("stormlp_gds_first_byte_p99_seconds", "seconds"),
        "first_byte_us_p99",
        US,
        "99th percentile of the time from sending a GET of an object to the head of its reply.",
    ),
    family(
        ("stormlp_gds_first_byte_max_seconds", "seconds"),
        "first_byte_us_max",
        US,
        "Maximum time from sending a GET of an object to the head of its reply.",
    ),
];
const GDS_LABELS: &[(&str, &str)] = &[
    ("requested_path", "requested_path"),
    ("path", "effective_path"),
    ("op", "op"),
    ("read_percent", "read_percent"),
    ("io_size_bytes", "io_size_bytes"),
    ("io_size_mix", "io_size_mix"),
    ("threads", "threads"),
    ("queue_depth", "queue_depth"),
    ("repeat", "repeat"),
    ("memory", "memory"),
    ("hosts", "hosts"),
];

const TRAIN: &[Family] = &[
    family(
        ("stormlp_train_accelerator_utilisation_ratio", "ratio"),
        "au_percent",
        PERCENT,
        "Accelerator utilisation of an epoch by the formula of the profile.",
    ),
    family(
        ("stormlp_train_samples_per_second", "samples_per_second"),
        "samples_per_second",
        1.0,
        "Samples per second of all accelerators, by the formula of the profile.",
    ),
    family(
        ("stormlp_train_throughput_bytes_per_second", "bytes_per_second"),
        "mib_per_second",
        MIB,
        "Bytes per second by the configured record length.",
    ),
    family(
        ("stormlp_train_read_bytes_per_second", "bytes_per_second"),
        "read_mib_per_second",
        MIB,
        "Bytes read per second, over the whole epoch.",
    ),
    family(
        ("stormlp_train_waiting_storage_seconds", "seconds"),
        "waiting_storage_seconds",
        1.0,
        "Time that accelerators waited while storage was busy, summed over them.",
    ),
    family(
        ("stormlp_train_waiting_cpu_seconds", "seconds"),
        "waiting_cpu_seconds",
        1.0,
        "Time that accelerators waited for the CPU of the host, summed over them.",
    ),
    family(
        ("stormlp_train_waiting_barrier_seconds", "seconds"),
        "waiting_barrier_seconds",
        1.0,
        "Time that accelerators waited for slower ones, summed over them.",
    ),
    family(
        ("stormlp_train_waiting_startup_seconds", "seconds"),
        "waiting_startup_seconds",
        1.0,
        "Time that accelerators waited for the first batch, summed over them.",
    ),
    family(
        ("stormlp_train_epoch_duration_seconds", "seconds"),
        "duration_seconds",
        1.0,
        "Wall time of an epoch.",
    ),
    family(
        ("stormlp_train_page_cache_ratio", "ratio"),
        "page_cache_share",
        1.0,
        "Share of the files in the page cache when an epoch began.",
    ),
    family(
        ("stormlp_train_first_byte_mean_seconds", "seconds"),
        "first_byte_us_mean",
        US,
        "Mean time from sending a GET of an object to the head of its reply, in all epochs of the run.",
    ),
    family(
        ("stormlp_train_first_byte_p50_seconds", "seconds"),
        "first_byte_us_p50",
        US,
        "Median time from sending a GET of an object to the head of its reply, in all epochs of the run.",
    ),
    family(
        ("stormlp_train_first_byte_p99_seconds", "seconds"),
        "first_byte_us_p99",
        US,
        "99th percentile of the time from sending a GET of an object to the head of its reply, in all epochs of the run.",
    ),
    family(
        ("stormlp_train_first_byte_max_seconds", "seconds"),
        "first_byte_us_max",
        US,
        "Maximum time from sending a GET of an object to the head of its reply, in all epochs of the run.",
    ),
];
const TRAIN_LABELS: &[(&str, &str)] = &[
    ("workload", "workload"),
    ("accelerator", "accelerator"),
    ("accelerators", "accelerators"),
    ("profile", "profile"),
    ("planned_path", "path"),
    ("run", "run"),
    ("warm_up", "warm_up"),
    ("epoch", "epoch"),
    ("hosts", "hosts"),
    ("barrier", "barrier"),
];

const CHECKPOINT: &[Family] = &[
    family(
        ("stormlp_checkpoint_throughput_bytes_per_second", "bytes_per_second"),
        "gib_per_second_total",
        GIB,
        "All bytes of a save or restore over the time of its slowest rank.",
    ),
    family(
        ("stormlp_checkpoint_slowest_rank_bytes_per_second", "bytes_per_second"),
        "gib_per_second_min_rank",
        GIB,
        "The lowest of the ranks' own rates.",
    ),
    family(
        ("stormlp_checkpoint_duration_seconds", "seconds"),
        "duration_seconds_max",
        1.0,
        "Time of the slowest rank.",
    ),
    family(
        ("stormlp_checkpoint_transfer_seconds", "seconds"),
        "transfer_seconds",
        1.0,
        "Time in writing or reading, mean over the ranks.",
    ),
    family(
        ("stormlp_checkpoint_fsync_seconds", "seconds"),
        "fsync_seconds",
        1.0,
        "Time in fsync, mean over the ranks.",
    ),
    family(
        ("stormlp_checkpoint_page_cache_ratio", "ratio"),
        "page_cache_share",
        1.0,
        "Share of the bytes in the page cache before a restore.",
    ),
    family(
        ("stormlp_checkpoint_first_byte_mean_seconds", "seconds"),
        "first_byte_us_mean",
        US,
        "Mean time from sending a GET of an object to the head of its reply, in all restores.",
    ),
    family(
        ("stormlp_checkpoint_first_byte_p50_seconds", "seconds"),
        "first_byte_us_p50",
        US,
        "Median time from sending a GET of an object to the head of its reply, in all restores.",
    ),
    family(
        ("stormlp_checkpoint_first_byte_p99_seconds", "seconds"),
        "first_byte_us_p99",
        US,
        "99th percentile of the time from sending a GET of an object to the head of its reply, in all restores.",
    ),
    family(
        ("stormlp_checkpoint_first_byte_max_seconds", "seconds"),
        "first_byte_us_max",
        US,
        "Maximum time from sending a GET of an object to the head of its reply, in all restores.",
    ),
];
const CHECKPOINT_LABELS: &[(&str, &str)] = &[
    ("model", "model"),
    ("scale", "scale"),
    ("profile", "profile"),
    ("planned_path", "path"),
    ("phase", "phase"),
    ("step", "step"),
    ("hosts", "hosts"),
    ("detached", "detached"),
];

const KVCACHE: &[Family] = &[
    family(
        ("stormlp_kvcache_read_bytes_per_second", "bytes_per_second"),
        "read_gib_per_second",
        GIB,
        "Bytes of objects read within the window of a trial, over its length.",
    ),
    family(
        ("stormlp_kvcache_write_bytes_per_second", "bytes_per_second"),
        "write_gib_per_second",
        GIB,
        "Bytes of objects written within the window, over its length; they count once synced, but chunks of prompts, which nobody syncs, once written.",
    ),
    family(
        ("stormlp_kvcache_tokens_per_second", "tokens_per_second"),
        "tokens_per_second",
        1.0,
        "Tokens generated by the requests served within the window, over its length.",
    ),
    family(
        ("stormlp_kvcache_read_p95_seconds", "seconds"),
        "read_p95_ms",
        MS,
        "95th percentile of reading an object.",
    ),
    family(
        ("stormlp_kvcache_fsync_p95_seconds", "seconds"),
        "fsync_p95_ms",
        MS,
        "95th percentile of the fsync of an object.",
    ),
    family(
        ("stormlp_kvcache_persist_p95_seconds", "seconds"),
        "persist_p95_ms",
        MS,
        "95th percentile of writing and syncing an object.",
    ),
    family(
        ("stormlp_kvcache_prefix_load_p50_seconds", "seconds"),
        "load_p50_ms",
        MS,
        "Median time to load a prefix of prefix_tokens.",
    ),
    family(
        ("stormlp_kvcache_prefix_load_p95_seconds", "seconds"),
        "load_p95_ms",
        MS,
        "95th percentile of the time to load a prefix of prefix_tokens.",
    ),
    family(
        ("stormlp_kvcache_prefix_load_p99_seconds", "seconds"),
        "load_p99_ms",
        MS,
        "99th percentile of the time to load a prefix of prefix_tokens.",
    ),
    family(
        ("stormlp_kvcache_fed_servers", "servers"),
        "fed_servers",
        1.0,
        "The most servers that storage feeds, as a search has found.",
    ),
];
const KVCACHE_LABELS: &[(&str, &str)] = &[
    ("model", "model"),
    ("option", "option"),
    ("profile", "profile"),
    ("users", "users"),
    ("trial", "trial"),
    ("prefix_tokens", "prefix_tokens"),
    ("hosts", "hosts"),
];

/// The gauges of a command's reports, and their labels with the columns that these are from.
pub(super) fn families(
    kind: ReportKind,
) -> (&'static [Family], &'static [(&'static str, &'static str)]) {
    match kind {
        ReportKind::Gds => (GDS, GDS_LABELS),
        ReportKind::Train => (TRAIN, TRAIN_LABELS),
        ReportKind::Checkpoint => (CHECKPOINT, CHECKPOINT_LABELS),
        ReportKind::Kvcache => (KVCACHE, KVCACHE_LABELS),
    }
}
