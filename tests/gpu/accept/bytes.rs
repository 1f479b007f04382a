//! Facts about the machine, and byte equality with the evidence of the route asserted.

use std::time::Instant;

use serde_json::Value;

use crate::gpu::persistence_is_off;
use crate::process::LIMIT;
use crate::report::Report;
use crate::route::{Expected, Finding, Tally, judge_cell};
use crate::scene::{Scene, room};

/// The machine, whether stormlp sees a GPU and cuFile there, and the direct route.
pub(crate) fn facts(scene: &Scene, report: &mut Report) {
    libraries(scene, report);
    waking(scene, report);
    let machine = match scene.stormlp("doctor . --format json").json() {
        Ok(machine) => machine,
        Err(why) => return report.fail("doctor", why),
    };
    let host = &machine["host"];
    for key in ["kernel", "cpu_model", "cpus", "memory_bytes", "numa_nodes", "stormlp_version"] {
        report.note(key, host[key].to_string());
    }
    for said in machine["gpu"]["cufile_says"].as_array().into_iter().flatten() {
        report.note("cuFile says", said.to_string());
    }
    let release = host["release_build"] == true;
    if release {
        report.pass("build", "release")
    } else {
        report.note("build", "debug: its overheads are meaningless")
    }
    let gpus = host["accelerators"].as_array().map_or(0, Vec::len);
    report.check(
        "CUDA shows a GPU",
        match gpus {
            0 => Err(host["hidden_gpus"].to_string()),
            _ => Ok(host["accelerators"].to_string()),
        },
    );
    for path in host["paths"].as_array().into_iter().flatten() {
        let words = path["availability"].to_string();
        if path["availability"]["status"] == "available" {
            report.pass(&format!("path {}", path["path"]), words)
        } else {
            report.fail(&format!("path {}", path["path"]), words)
        }
    }
    scene.direct().tell(scene.preflight().should_be_direct.as_deref(), report);
}

/// The libraries of the run.
fn libraries(scene: &Scene, report: &mut Report) {
    let real = scene.real_library();
    let found = real.map(|library| format!("{}, because {}", library.path.display(), library.why));
    match (&scene.double, found) {
        (None, found) => report.note("libcufile", found.as_deref().unwrap_or("none was found")),
        (Some(double), found) => {
            report.note("double", format!("{} is libcufile and libcuda", double.display()));
            let found = found.as_deref().unwrap_or("none was found");
            report.note("real libcufile, only for host memory", found);
        }
    }
    if let Some(shim) = scene.shim() {
        let words = format!("{} stands in for a missing /proc/modules", shim.display());
        report.note("shim", words);
    }
}

/// The time to open the GPU, at first and while another process has it open.
fn waking(scene: &Scene, report: &mut Report) {
    if scene.exclusive {
        report.note(
            "compute mode",
            "exclusive: one process at a time may open the GPU, so none keeps it open during this \
             run, and its memory is not monitored while cells run",
        );
    }
    match scene.opened_in() {
        Ok(first) => {
            let begun = Instant::now();
            scene.run(scene.program("bare", "").args(["memory", "0"]));
            let words = format!(
                "{:.1} s for the first process, {:.1} s for the next",
                first.as_secs_f64(),
                begun.elapsed().as_secs_f64()
            );
            report.note("opening the GPU", words);
        }
        Err(why) => report.fail("opening the GPU", why),
    }
    if !scene.emulated() && persistence_is_off() == Some(true) {
        let here = if scene.exclusive {
            "each process initialises the GPU"
        } else {
            "one process keeps the GPU open during this run"
        };
        let words = format!("off; {here}, and `sudo nvidia-smi -pm 1` would keep it open for all");
        report.note("persistence mode", words);
    }
}

/// Every path, kind of memory, depth and registration against the page cache, transfer by transfer:
/// the tests of `tests/gpu`.
pub(crate) fn by_transfers(scene: &Scene, report: &mut Report) {
    let folder = scene.folder("transfers");
    let mut command = scene.program("gpu", "direct");
    command
        .env("STORMLP_REQUIRE_GPU", "1")
        .env("STORMLP_GPU_TEST_DEVICE", "0")
        .env("STORMLP_GPU_TEST_DIR", folder);
    if scene.direct().expected() == Expected::Direct {
        command.env("STORMLP_REQUIRE_DIRECT", "1");
    }
    // It opens the GPU for each folder, and eight GPUs need tens of seconds to open.
    let limit = LIMIT + 10 * scene.opened_in().unwrap_or_default();
    let ended = scene.clock.run(&mut command, limit);
    let (mut passed, mut tally) = (0, Tally::default());
    for line in ended.stdout.lines() {
        match line.trim_start() {
            line if line.ends_with("... FAILED") => report.fail(line, ""),
            line if line.ends_with("... ok") => passed += 1,
            line => Finding::of_check(line).into_iter().for_each(|finding| tally.add(finding)),
        }
    }
    match ended.code {
        Some(0) if passed > 0 => {
            report.routes("transfers", &tally, &format!("{passed} checks hold, "));
        }
        _ => report.fail("transfers", ended.to_text()),
    }
}

/// The paths that the CPU drives, with a choice of engines.
const CPU_PATHS: &str = "cpu-gpu,cpu-async-gpu,page-cache";
/// cuFile's with one transfer each, or on streams; and its batches.
const SINGLE: &str = "gds,gds-async";
const BATCHES: &str = "gds-batch,gds-batch-stream";
const ALL: &str = "gds,gds-async,gds-batch";
/// Bytes that each thread of a cell moves.
const FILE_BYTES: u64 = 16 << 20;

/// A matrix, and the route that its cells in accelerator memory must show.
struct Matrix {
    what: String,
    paths: &'static str,
    words: String,
    expected: Expected,
    /// The fault of the double.
    fault: &'static str,
}

/// Whole cells, written and read back with each byte checked.
pub(crate) fn by_cells(scene: &Scene, report: &mut Report) {
    let folder = scene.folder("cells");
    let direct = scene.direct();
    for matrix in matrices(scene) {
        // If the route is unknown, a fallback is made an error.
        let proof = match matrix.expected {
            Expected::Direct => direct.option_of(matrix.paths),
            Expected::SomeDirect | Expected::Compat | Expected::Either => "",
        };
        let words = format!(
            "gds --dir {} --device cuda:0 --verify --duration 1x --file-size 16M --threads 1,8 \
             --cache as-is --path {} {} {proof} --format json",
            folder.display(),
            matrix.paths,
            matrix.words
        );
        let mut command = scene.program("stormlp", matrix.fault);
        let ended = scene.run(command.args(words.split_whitespace()));
        cells(&matrix.what, &ended.json(), matrix.expected, report);
    }
    on_host_memory(scene, report);
}

fn matrices(scene: &Scene) -> Vec<Matrix> {
    let direct = scene.direct();
    let expected = direct.expected();
    let both = "--op write,read --io-size";
    let of = |what: &str, paths, words: &str| Matrix {
        what: what.to_string(),
        paths,
        words: format!("{both} {words}"),
        expected,
        fault: "direct",
    };
    let mut all = vec![
        of("engine psync", CPU_PATHS, "4K,1M,16M --engine psync"),
        of("engine uring", CPU_PATHS, "4K,1M,16M --engine uring"),
        of("cuFile's transfers", SINGLE, "4K,1M,16M"),
        of("cuFile's batches of 4K", BATCHES, "4K"),
        Matrix {
            expected: direct.expected_of_batches(1 << 20),
            ..of("cuFile's batches of 1M", BATCHES, "1M")
        },
        Matrix {
            expected: direct.expected_of_batches(16 << 20),
            ..of("cuFile's batches of 16M", BATCHES, "16M")
        },
        Matrix {
            expected: direct.expected_of_batches(1 << 20),
            ..of("vmm memory", ALL, "1M --buffer-memory vmm")
        },
        Matrix {
            // cuFile may use internal buffers for it, or none.
            expected: Expected::Either,
            ..of("not registered", ALL, "64K --tune register=no")
        },
        of("depth 8", ALL, "64K --queue-depth 8"),
        of("waiting by spinning", ALL, "64K --queue-depth 4 --tune wait=spin"),
    ];
    if direct.counts() {
        all.push(of("counted throughout", ALL, "64K --tune cufile-stats=3"));
    }
    for memory in ["pinned", "host", "mmap"] {
        all.push(Matrix {
            expected: Expected::Compat,
            // Its direct route accepts host memory as well, as no other does.
            fault: "",
            ..of(&format!("{memory} memory"), ALL, &format!("1M --buffer-memory {memory}"))
        });
    }
    all.push(Matrix {
        // Over the files that were written before.
        words: "--op randread --tune alignment=1 --io-size 64K".to_string(),
        expected: Expected::Either,
        ..of("unaligned", ALL, "64K")
    });
    all
}

/// The real library on host memory, which needs no GPU.
fn on_host_memory(scene: &Scene, report: &mut Report) {
    let what = "real libcufile on host memory, in /dev/shm";
    let Some(mut command) = scene.on_host_memory("stormlp") else {
        return report.skip(what, "there is no libcufile");
    };
    let folder = match in_memory(256 << 20) {
        Ok(folder) => folder,
        Err(why) => return report.skip(what, why),
    };
    let words = format!(
        "gds --dir {} --device host --buffer-memory host --path gds,gds-batch --op write,read --verify \
         --duration 1x --file-size 16M --threads 1,8 --io-size 4K,1M,16M --format json",
        folder.path().display()
    );
    let ended = scene.run(command.args(words.split_whitespace()));
    cells(what, &ended.json(), Expected::Compat, report);
}

/// A folder in memory with so much room; containers often have 64 MiB alone.
pub(crate) fn in_memory(bytes: u64) -> Result<tempfile::TempDir, String> {
    let folder = tempfile::tempdir_in("/dev/shm").map_err(|error| format!("/dev/shm: {error}"))?;
    match room(folder.path()) {
        Some(free) if free < bytes => {
            Err(format!("/dev/shm has {} MiB free, but {} MiB are needed", free >> 20, bytes >> 20))
        }
        _ => Ok(folder),
    }
}

/// Whether each cell of a matrix is right: every byte moved and checked, by the route that it must
/// have taken.
pub(crate) fn cells(
    what: &str,
    matrix: &Result<Value, String>,
    expected: Expected,
    report: &mut Report,
) {
    let matrix = match matrix {
        Ok(matrix) => matrix,
        Err(why) => return report.fail(what, why),
    };
    let (mut tally, mut right, mut wrong) = (Tally::default(), 0, 0);
    for cell in matrix["cells"].as_array().into_iter().flatten() {
        match judge_cell(cell, FILE_BYTES, expected) {
            Ok(finding) => {
                right += 1;
                tally.add(finding);
            }
            Err(why) => {
                wrong += 1;
                let of = |key: &str| cell[key].to_string().replace('"', "");
                let name = format!(
                    "{what}: {} {} {} bytes {} threads",
                    of("requested_path"),
                    of("op"),
                    of("io_size_bytes"),
                    of("threads")
                );
                report.fail(&name, why);
            }
        }
    }
    if right + wrong == 0 {
        report.fail(what, "there are no cells");
    }
    report.routes(what, &tally, &format!("{right} cells moved the right bytes, "));
}
