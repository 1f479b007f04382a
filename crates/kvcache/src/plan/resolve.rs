//! Resolves a request and the facts to a plan, or to all problems that prevent one.

use std::path::PathBuf;

use stormlp_core::facts::{HostFacts, keeps_files_in_memory};
use stormlp_core::failure::{Problems, Resolution};
use stormlp_core::location::Location;
use stormlp_core::mt19937::Mt19937;
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_core::transport::{EngineChoice, Transport};
use stormlp_core::units::{ByteSize, counted};
use stormlp_core::warning::{Warning, WarningKind};

use super::checks::{closed_problems, folder_problems, idle_options, machine_problems};
use super::content::file_bytes;
use super::facts::{KvcacheFacts, TraceFacts};
use super::kvcache_plan::{KvcachePlan, Pass, TracePlan};
use super::model::Model;
use super::noise::NOISE_BYTES;
use super::options::{
    CHUNK_BYTES, MOST_SECONDS, MOST_WORKERS, MlperfOption, OPTIONS, PAUSE_SECONDS, SECONDS, TRIALS,
};
use super::request::KvcacheRequest;
use super::transport;
use super::users::{User, draw};
use super::workload::{KvcacheWorkload, MlperfRequest};

/// Share of the free space that objects fill in a closed run, as in the original.
const CLOSED_SHARE_OF_FREE: f64 = 0.95;
/// By default objects fill this many bytes, or half of the free space if that is less.
const USUAL_CAPACITY: u64 = 10 << 30;
/// Threads of a replay.
const REPLAY_THREADS: u32 = 16;

/// Decides every number of a run. Without `facts` the folder was not examined.
pub fn resolve(
    request: &KvcacheRequest,
    host: &HostFacts,
    facts: Option<&KvcacheFacts>,
    results_beside_data: &[PathBuf],
) -> Resolution<KvcachePlan> {
    let mut problems = Problems::default();
    let trace = facts.and_then(|facts| facts.trace.as_ref());
    // Unknown as long as the trace was not read.
    let (passes, loads_prefixes) = match &request.workload {
        KvcacheWorkload::Mlperf(of) => (passes(request, of, &mut problems), Some(false)),
        KvcacheWorkload::Serving(_) => (threads_only(request, 0, &mut problems), Some(true)),
        KvcacheWorkload::Replay(of) => (
            replay(request, &of.trace, trace, &mut problems),
            trace.map(|trace| trace.format.has_blocks()),
        ),
    };
    idle_options(request, loads_prefixes == Some(false), &mut problems);
    if !problems.is_empty() {
        return Resolution { plan: None, problems };
    }
    let mut plan = assemble(request, passes, facts);
    if loads_prefixes == Some(true) {
        serving(&mut plan, request, host, &mut problems);
    }
    closed_problems(&plan, results_beside_data, &mut problems);
    machine_problems(&plan, host, &mut problems);
    if let Some(facts) = facts {
        folder_problems(&plan, facts, &mut problems);
    }
    Resolution { plan: Some(plan), problems }
}

/// The threads that replay a trace; without `trace` it was not read.
fn replay(
    request: &KvcacheRequest,
    file: &Location,
    trace: Option<&TraceFacts>,
    problems: &mut Problems,
) -> Vec<Pass> {
    if let Some(trace) = trace {
        if let Some(wrong) = &trace.wrong {
            problems.plan(format!("{file}, {wrong}"), "mend the trace, or replay another one");
        } else if trace.entries == 0 {
            problems.plan(
                format!("{file} has no work for storage ({} read)", counted(trace.skipped, "line")),
                "replay a trace with operations of storage or requests",
            );
        }
    }
    threads_only(request, trace.map_or(0, |trace| trace.most_tokens), problems)
}

/// Decides the load of a serving engine, by generated prompts or a trace, and how its bytes move.
fn serving(
    plan: &mut KvcachePlan,
    request: &KvcacheRequest,
    host: &HostFacts,
    problems: &mut Problems,
) {
    let Some((pass, options)) = plan.passes.first_mut().zip(request.chunks()) else { return };
    let is_paced = plan.trace.as_ref().is_some_and(|trace| trace.paced_seconds().is_some());
    let prompts = match &request.workload {
        KvcacheWorkload::Serving(prompts) => Some(prompts),
        _ => None,
    };
    let room = (&pass.model, plan.capacity_bytes);
    let (chunks, tune) = options;
    let load = chunks.plan(tune, room, prompts, is_paced, problems);
    pass.largest_object_bytes = load.chunk_bytes;
    let (decided, warnings) = transport::decide((request, chunks), &load, host, problems);
    (plan.transport, pass.workers) = (decided, load.loaders + load.writers);
    plan.warnings.extend(warnings);
    plan.buffer_bytes = buffers(request, &plan.transport);
    let (capacity, longest) = (ByteSize(plan.capacity_bytes), load.longest_prefix_chunks());
    if load.most_chunks > 0 && longest > load.most_chunks {
        problems.capacity(
            format!(
                "a prefix needs up to {}, but chunks may use only {capacity}",
                ByteSize(longest * load.chunk_bytes)
            ),
            "use a larger --capacity, a --dir with more space, or shorter --prefix-tokens",
        );
    } else if load.prefix_bytes() > plan.capacity_bytes {
        plan.warnings.push(Warning::new(
            WarningKind::NoEffect,
            format!(
                "{} prefixes need {}, but chunks may use only {capacity}: prompts find a part of them",
                load.prefixes,
                ByteSize(load.prefix_bytes()),
            ),
            "use fewer --prefixes, or a larger --capacity",
        ));
    }
    plan.serving = Some(load);
}

/// The model of a name, unless that is a problem.
fn model_of(name: &str, problems: &mut Problems) -> Option<Model> {
    let help = "`stormlp workloads` lists the models, `stormlp kvcache size` shows their sizes";
    Model::named(name).map_err(|what| problems.plan(what, help)).ok()
}

/// A pass of threads without users.
fn threads_only(request: &KvcacheRequest, most_tokens: u32, problems: &mut Problems) -> Vec<Pass> {
    let Some(model) = model_of(request.model(), problems) else { return Vec::new() };
    let threads = request.chunks().and_then(|(chunks, _)| chunks.concurrency);
    vec![Pass {
        option: None,
        users: 0,
        workers: threads.unwrap_or(REPLAY_THREADS),
        memory_bytes: 0,
        concurrent_writes: OPTIONS[0].concurrent_writes,
        requests_per_second: 0.0,
        largest_object_bytes: file_bytes(&model, most_tokens.into()),
        model,
    }]
}

/// The passes, one after the other.
fn passes(request: &KvcacheRequest, of: &MlperfRequest, problems: &mut Problems) -> Vec<Pass> {
    let options = match (of.closed, of.mlperf_option, &request.run.model) {
        (true, ..) => OPTIONS.to_vec(),
        (false, Some(number), _) => {
            OPTIONS.into_iter().filter(|option| option.number == number).collect()
        }
        (false, None, model) => {
            let own = OPTIONS.into_iter().find(|option| Some(option.model) == model.as_deref());
            vec![own.unwrap_or(OPTIONS[0])]
        }
    };
    options.iter().filter_map(|option| pass((request, of), option, problems)).collect()
}

/// A pass of `option` with the changes of the request.
fn pass(
    (request, of): (&KvcacheRequest, &MlperfRequest),
    option: &MlperfOption,
    problems: &mut Problems,
) -> Option<Pass> {
    let name = request.run.model.as_deref().unwrap_or(option.model);
    let model = model_of(name, problems)?;
    let users = of.users.unwrap_or(option.users);
    let memory_bytes = of.tune.cpu_cache_bytes.unwrap_or(option.cpu_bytes);
    let concurrent_writes = of.tune.concurrent_writes.unwrap_or(option.concurrent_writes);
    let is_option = (name, users, memory_bytes, concurrent_writes)
        == (option.model, option.users, option.cpu_bytes, option.concurrent_writes);
    let all = draw(&mut Mt19937::of_python(request.own_seed()), users);
    let largest = all.iter().map(|user| user.context_tokens).max().unwrap_or(0);
    Some(Pass {
        option: is_option.then_some(option.number),
        users,
        workers: users.min(MOST_WORKERS),
        memory_bytes,
        concurrent_writes,
        requests_per_second: all.iter().map(User::requests_per_second).sum(),
        largest_object_bytes: file_bytes(&model, largest.into()),
        model,
    })
}

/// The bytes that objects may use by default on storage with so many free.
fn usual_capacity(is_closed: bool, free_bytes: Option<u64>) -> u64 {
    match is_closed {
        true => free_bytes.map_or(u64::MAX, |free| (free as f64 * CLOSED_SHARE_OF_FREE) as u64),
        false => free_bytes.map_or(USUAL_CAPACITY, |free| USUAL_CAPACITY.min(free / 2)),
    }
}

fn assemble(
    request: &KvcacheRequest,
    passes: Vec<Pass>,
    facts: Option<&KvcacheFacts>,
) -> KvcachePlan {
    let run = &request.run;
    let workers = passes.iter().map(|pass| pass.workers).max().unwrap_or(1) as usize;
    let transport = Transport {
        threads: workers,
        chunk_bytes: run.io_bytes.unwrap_or(CHUNK_BYTES),
        ..Transport::bare(PathKind::Buffered, EngineKind::Psync, EngineChoice::Psync, None)
    };
    let free_bytes =
        facts.and_then(|facts| Some(facts.folder.free_bytes?.saturating_add(facts.left_bytes)));
    let usable = usual_capacity(request.is_closed(), free_bytes);
    let pause_seconds = match &request.workload {
        KvcacheWorkload::Mlperf(of) if of.closed => PAUSE_SECONDS,
        KvcacheWorkload::Mlperf(of) => of.tune.pause_seconds.unwrap_or(0.0),
        _ => 0.0,
    };
    let speed = match &request.workload {
        KvcacheWorkload::Replay(replay) => replay.speed,
        _ => None,
    };
    let trace = facts.and_then(|facts| facts.trace.as_ref()).map(|trace| TracePlan {
        format: trace.format,
        entries: trace.entries,
        skipped: trace.skipped,
        span_seconds: trace.span_ns as f64 / 1e9,
        speed: speed.unwrap_or_default(),
    });
    let most_seconds = if trace.is_some() { MOST_SECONDS } else { SECONDS };
    KvcachePlan {
        request: request.clone(),
        workload: request.workload_name(),
        trace,
        serving: None,
        trials: if request.is_closed() { TRIALS } else { run.runs.unwrap_or(1) },
        duration_seconds: run.duration_seconds.unwrap_or(most_seconds),
        pause_seconds,
        seed: request.own_seed(),
        rank: request.rank,
        capacity_bytes: run.capacity_bytes.unwrap_or(usable),
        free_bytes,
        buffer_bytes: buffers(request, &transport),
        transport,
        warnings: facts.and_then(in_memory).into_iter().collect(),
        passes,
    }
}

/// Memory for buffers and noise in bytes; expected bytes are generated in further memory.
fn buffers(request: &KvcacheRequest, transport: &Transport) -> u64 {
    let compared =
        if request.run.verify { transport.threads as u64 * transport.chunk_bytes } else { 0 };
    transport.buffer_bytes() + NOISE_BYTES + compared
}

fn in_memory(facts: &KvcacheFacts) -> Option<Warning> {
    let kind = facts.folder.file_system.as_deref().filter(|kind| keeps_files_in_memory(kind))?;
    Some(Warning::new(
        WarningKind::CacheState,
        format!("objects are in memory: the folder is on {kind}"),
        "use a --dir on storage",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::trace::TraceFormat;
    use super::*;
    use stormlp_core::facts::{Availability, FolderFacts};
    use stormlp_core::note::Cause;

    use super::super::request::RunRequest;
    use super::super::serving_request::{ChunkRequest, ServingRequest};
    use super::super::workload::ReplayRequest;

    fn facts() -> KvcacheFacts {
        KvcacheFacts {
            folder: FolderFacts {
                path: "kv".into(),
                writable: Availability::Available,
                free_bytes: Some(1 << 40),
                file_system_id: 1,
                file_system: Some("xfs".to_string()),
                direct: Availability::Available,
            },
            left_bytes: 0,
            foreign: None,
            trace: None,
        }
    }

    fn request() -> KvcacheRequest {
        of(MlperfRequest::default())
    }

    fn of(workload: MlperfRequest) -> KvcacheRequest {
        let run = RunRequest { folder: Some(Location::from("objects")), ..RunRequest::default() };
        KvcacheRequest {
            run,
            workload: KvcacheWorkload::Mlperf(workload),
            ..KvcacheRequest::default()
        }
    }

    fn resolved(request: &KvcacheRequest, facts: &KvcacheFacts) -> Resolution<KvcachePlan> {
        resolve(request, &stormlp_fixtures::host(), Some(facts), &[])
    }

    #[test]
    fn a_plain_request_is_option_1() {
        let plan = resolved(&request(), &facts()).plan.unwrap();
        let [pass] = plan.passes.as_slice() else { panic!("{:?}", plan.passes) };
        assert_eq!((pass.option, pass.users, pass.workers), (Some(1), 200, 200));
        assert_eq!(pass.requests_per_second.round() as u32, 483);
        assert_eq!(pass.largest_object_bytes >> 20, 3104);
        assert_eq!((plan.trials, plan.duration_seconds), (1, 300.0));
        assert_eq!(plan.capacity_bytes, 10 << 30);
        // The buffers of 200 threads and the noise are well below 2 GiB.
        assert_eq!(plan.buffer_bytes, (200 << 20) + NOISE_BYTES);
    }

    #[test]
    fn a_model_takes_its_option_and_a_change_leaves_none() {
        let of = |model: Option<&str>, change: fn(&mut MlperfRequest)| {
            let mut workload = MlperfRequest::default();
            change(&mut workload);
            let mut request = self::of(workload);
            request.run.model = model.map(str::to_string);
            resolved(&request, &facts()).plan.unwrap().passes.remove(0)
        };
        let large = of(Some("llama3.1-70b-instruct"), |_| ());
        assert_eq!((large.option, large.users, large.concurrent_writes), (Some(3), 70, 4));
        let other = of(Some("qwen3-32b"), |_| ());
        assert_eq!((other.option, other.users), (None, 200));
        assert_eq!(of(None, |one| one.users = Some(10)).option, None);
        let second = of(None, |one| one.mlperf_option = Some(2));
        assert_eq!((second.option, second.memory_bytes), (Some(2), 4 << 30));
    }

    #[test]
    fn a_closed_run_is_three_options_and_three_trials() {
        let request = of(MlperfRequest { closed: true, ..MlperfRequest::default() });
        let plan = resolved(&request, &facts()).plan.unwrap();
        let options: Vec<_> = plan.passes.iter().map(|pass| pass.option).collect();
        assert_eq!(options, [Some(1), Some(2), Some(3)]);
        assert_eq!((plan.trials, plan.pause_seconds), (3, 90.0));
        assert_eq!(plan.capacity_bytes, ((1u64 << 40) as f64 * 0.95) as u64, "as in the original");
        let beside = [PathBuf::from("results")];
        let host = stormlp_fixtures::host();
        let refused = resolve(&request, &host, Some(&facts()), &beside).problems;
        assert_eq!(refused.cause(), Cause::Plan);
    }

    #[test]
    fn every_problem_is_found() {
        let mut bad = request();
        bad.run.model = Some("llama4".to_string());
        bad.run.folder = Some(Location::from("s3://bucket/kv"));
        let found = resolved(&bad, &facts());
        assert!(found.plan.is_none());
        assert_eq!((found.problems.len(), found.problems.cause()), (2, Cause::Plan));
        let mut full = facts();
        full.folder.free_bytes = Some(1 << 30);
        let found = resolved(&request(), &full).problems;
        assert_eq!(found.cause(), Cause::Capacity);
        assert!(found.to_string().contains("the largest object of llama3.1-8b needs"), "{found}");
        let foreign = KvcacheFacts { foreign: Some("photo.jpg".to_string()), ..facts() };
        let found = resolved(&request(), &foreign).problems;
        assert!(found.to_string().contains("photo.jpg, which stormlp did not make"), "{found}");
        let host =
            HostFacts { open_files_limit: 256, memory_bytes: 1 << 28, ..stormlp_fixtures::host() };
        let found = resolve(&request(), &host, Some(&facts()), &[]).problems;
        assert_eq!(found.len(), 2, "{found}");
    }

    #[test]
    fn options_for_chunks_are_no_problem_of_a_trace_that_was_not_read() {
        let chunks = ChunkRequest { queue_depth: Some(2), ..ChunkRequest::default() };
        let workload =
            KvcacheWorkload::Replay(ReplayRequest { chunks, ..ReplayRequest::default() });
        let mut replay = KvcacheRequest { workload, ..request() };
        replay.run.model = Some("llama4".to_string());
        let found = resolved(&replay, &facts()).problems;
        assert!(found.len() == 1 && found.to_string().contains("llama4"), "{found}");
        // A trace of objects has no prompts.
        replay.run.model = None;
        let trace = TraceFacts {
            format: TraceFormat::MlperfIo,
            entries: 1,
            skipped: 0,
            span_ns: 0,
            most_tokens: 1,
            wrong: None,
        };
        let found = resolved(&replay, &KvcacheFacts { trace: Some(trace), ..facts() }).problems;
        assert!(found.len() == 1 && found.to_string().contains("Mooncake"), "{found}");
    }

    #[test]
    fn a_thread_that_loads_has_as_many_chunks_open_as_are_in_flight() {
        let host = HostFacts { open_files_limit: 1024, ..stormlp_fixtures::host() };
        let found = |depth: u32| {
            let chunks = ChunkRequest { queue_depth: Some(depth), ..ChunkRequest::default() };
            let workload =
                KvcacheWorkload::Serving(ServingRequest { chunks, ..ServingRequest::default() });
            let request = KvcacheRequest { workload, ..request() };
            resolve(&request, &host, Some(&facts()), &[]).problems
        };
        assert!(found(64).is_empty(), "{}", found(64));
        let refused = found(256).to_string();
        // 8 threads with 257 chunks, 4 that write, and what else is open.
        assert!(refused.contains("need 2180 open files"), "{refused}");
    }
}
