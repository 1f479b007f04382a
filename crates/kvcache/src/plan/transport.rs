//! How the chunks of a serving engine move: path, engine, device, and how much is in flight.

use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Problems;
use stormlp_core::gpu_limits::{self, FlightOptions};
use stormlp_core::path::PathKind;
use stormlp_core::transport::{self, EngineChoice, Threading, Transport, TransportRequest};
use stormlp_core::warning::Warning;

use super::options::CHUNK_BYTES;
use super::request::KvcacheRequest;
use super::serving::{Layout, ServingPlan};
use super::serving_request::ChunkRequest;

/// Maximum bytes of an object that one request reads, and that a thread has memory for.
const MOST_OF_OBJECT: u64 = 64 << 20;
/// The figures that decide the transfers in flight.
const FLIGHT: FlightOptions = FlightOptions {
    fewer: "use a lower --concurrency, and fewer writers (--tune writers=N)",
    shallower: "use a lower --queue-depth",
    smaller: "use a smaller --io-size, --queue-depth or --concurrency, or more GPUs (--device)",
};

/// Decides how the bytes of chunks move, with warnings.
pub(super) fn decide(
    (request, chunks): (&KvcacheRequest, &ChunkRequest),
    load: &ServingPlan,
    host: &HostFacts,
    problems: &mut Problems,
) -> (Transport, Vec<Warning>) {
    let call_bytes = request.run.io_bytes;
    let is_bucket = request.own_folder().names_objects();
    let (request, require_gds) = (chunks, chunks.require.is_some());
    let path = path_of(request.path, is_bucket, problems);
    if is_bucket && load.layout == Layout::Packed {
        let what = "--tune layout=packed: objects cannot be changed in place";
        problems.plan(what, "use --tune layout=files, with an object for each chunk");
    }
    if require_gds && !path.needs_cufile() {
        let what = format!("--require gds: path {path} is not one of cuFile's");
        problems.plan(what, "use --path gds, or leave --require out");
    }
    let asked = request.engine.unwrap_or_default();
    if asked == EngineChoice::TokioUring {
        problems.plan(
            format!("engine {} has no path for chunks", asked.name()),
            "use --engine auto, uring or psync",
        );
    }
    let threads = load.loaders + load.writers;
    let asked = TransportRequest {
        path,
        engine: asked,
        devices: request.device.as_ref(),
        shares: threads.into(),
        require_gds,
        wait: None,
        threading: &Threading::default(),
    };
    let bare = transport::decide(asked, host, problems);
    let blocks = transport::blocks(path, bare.engine);
    let depth = if blocks { 1 } else { request.depth() };
    if let Some(given) = request.queue_depth.filter(|given| *given as usize > depth) {
        let (by, remedy) = match path.has_engine() {
            true => {
                (format!("engine {}", bare.engine), "use --engine uring, or a higher --concurrency")
            }
            false => (format!("path {path}"), "use a higher --concurrency"),
        };
        let what = format!("--queue-depth {given}: {by} has one transfer in flight per prompt");
        problems.plan(what, remedy);
    }
    let threads = threads as usize;
    let (queue_depth, limited) = transport::depth_in_cufile(path, threads, depth, host);
    let usual = match path {
        // A chunk is read by one request.
        PathKind::S3 => load.chunk_bytes.min(MOST_OF_OBJECT),
        // A blocking call transfers as much as other paths have in flight.
        PathKind::Gds => CHUNK_BYTES * request.depth() as u64,
        _ => CHUNK_BYTES,
    };
    if path == PathKind::S3 && call_bytes.is_some() {
        problems.plan(
            "--io-size is for files: a chunk is read by one request",
            "leave it out, or use another --chunk-tokens",
        );
    }
    let decided = Transport {
        threads,
        queue_depth: queue_depth.max(1),
        chunk_bytes: call_bytes.unwrap_or(usual),
        // One more is opened while the last pieces of earlier chunks are in flight.
        streams: depth + 1,
        ..bare
    };
    gpu_limits::check(&decided, FLIGHT, host, problems);
    let emulated = decided.emulated.then(transport::emulated_warning);
    (decided, emulated.into_iter().chain(limited).collect())
}

/// The path of chunks in files or, of a bucket, of objects.
fn path_of(asked: Option<PathKind>, is_bucket: bool, problems: &mut Problems) -> PathKind {
    match (asked, is_bucket) {
        (None | Some(PathKind::S3), true) => PathKind::S3,
        (Some(path), true) => {
            let what = format!("path {path} moves files, and --dir names objects");
            problems.plan(what, "leave --path out, or use --dir with a folder");
            PathKind::S3
        }
        (Some(PathKind::S3), false) => {
            let what = "path s3 moves objects, and --dir names a folder";
            problems.plan(what, "use --dir s3://bucket/prefix");
            PathKind::S3
        }
        (asked, false) => asked.unwrap_or(PathKind::Buffered),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_core::location::Location;
    use stormlp_core::path::EngineKind;

    use super::super::request::RunRequest;

    fn decided(folder: &str, chunks: ChunkRequest) -> (Transport, Problems) {
        let folder = Some(Location::from(folder));
        let run = RunRequest { folder, ..RunRequest::default() };
        let request = KvcacheRequest { run, ..KvcacheRequest::default() };
        let mut problems = Problems::default();
        let load = ServingPlan::fixture();
        let (decided, _) =
            decide((&request, &chunks), &load, &stormlp_fixtures::host(), &mut problems);
        (decided, problems)
    }

    #[test]
    fn a_bucket_has_a_path_of_its_own_with_a_request_for_a_chunk() {
        let (decided_for, problems) = decided("s3://bucket/kv", ChunkRequest::default());
        assert!(problems.is_empty(), "{problems}");
        assert_eq!((decided_for.path, decided_for.queue_depth), (PathKind::S3, 1));
        assert_eq!(decided_for.chunk_bytes, ServingPlan::fixture().chunk_bytes);
        let wrong = ChunkRequest { path: Some(PathKind::Cpu), ..ChunkRequest::default() };
        let (_, problems) = decided("s3://bucket/kv", wrong);
        assert_eq!(problems.len(), 1, "{problems}");
        let objects = ChunkRequest { path: Some(PathKind::S3), ..ChunkRequest::default() };
        let (_, problems) = decided("kv", objects);
        assert!(problems.to_string().contains("--dir names a folder"), "{problems}");
    }

    #[test]
    fn blocking_calls_have_as_much_in_flight_as_others() {
        let of = |path| ChunkRequest { path: Some(path), ..ChunkRequest::default() };
        let (gds, _) = decided("kv", of(PathKind::Gds));
        let (copied, problems) = decided("kv", of(PathKind::CpuGpu));
        assert!(problems.is_empty(), "{problems}");
        assert_eq!((gds.queue_depth, gds.chunk_bytes), (1, 4 << 20));
        assert_eq!(copied.queue_depth as u64 * copied.chunk_bytes, gds.chunk_bytes);
        assert!(copied.emulated && copied.engine == EngineKind::Uring);
    }
}
