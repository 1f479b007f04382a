//! Facts about the machine, and byte equality with the evidence of the route asserted.

use serde_json::Value;

use crate::report::Report;
use crate::scene::{Scene, run};

/// What the machine is, and that stormlp sees a GPU and cuFile there.
pub(crate) fn facts(scene: &Scene, report: &mut Report) {
    let machine = match scene.stormlp("doctor . --format json").json() {
        Ok(machine) => machine,
        Err(why) => return report.fail("doctor", why),
    };
    if let Some(library) = scene.real_library() {
        report.note("libcufile", library.display().to_string());
    }
    if let Some(shim) = scene.shim() {
        let words = format!("{} stands in for a missing /proc/modules", shim.display());
        report.note("shim", words);
    }
    let host = &machine["host"];
    for key in [
        "kernel",
        "cpu_model",
        "cpus",
        "memory_bytes",
        "numa_nodes",
        "stormlp_version",
    ] {
        report.note(key, host[key].to_string());
    }
    for key in [
        "driver_version",
        "driver_open",
        "cuda",
        "cufile",
        "nvidia_fs",
        "kernel_p2pdma",
    ] {
        report.note(key, machine["gpu"][key].to_string());
    }
    for said in machine["gpu"]["cufile_says"]
        .as_array()
        .into_iter()
        .flatten()
    {
        report.note("cuFile says", said.to_string());
    }
    let release = host["release_build"] == true;
    match release {
        true => report.pass("build", "release"),
        false => report.note("build", "debug: its overheads say nothing"),
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
        match path["availability"]["status"] == "available" {
            true => report.pass(&format!("path {}", path["path"]), words),
            false => report.fail(&format!("path {}", path["path"]), words),
        }
    }
}

/// Every path, kind of memory, depth and registration against the page cache, transfer by transfer:
/// the tests of `tests/gpu`.
pub(crate) fn by_transfers(scene: &Scene, report: &mut Report) {
    let folder = scene.folder("transfers");
    let mut command = scene.program("gpu", "direct");
    command
        .env("STORMLP_REQUIRE_GPU", "1")
        .env("STORMLP_GPU_TEST_DIR", folder);
    let ended = run(&mut command);
    for line in ended
        .stdout
        .lines()
        .filter(|line| line.contains("... FAILED"))
    {
        report.fail(line, "");
    }
    let passed = ended
        .stdout
        .lines()
        .filter(|line| line.ends_with("... ok"))
        .count();
    let words = format!("{passed} checks hold");
    report.check(
        "transfers",
        match ended.code {
            Some(0) if passed > 0 => Ok(words),
            code => Err(format!(
                "{words}, exit code {code:?}: {}",
                ended.last_words()
            )),
        },
    );
}

/// The paths that end in accelerator memory.
const PATHS: &str = "gds,gds-async,gds-batch,gds-batch-stream,cpu-gpu,cpu-async-gpu,page-cache";

/// Whole cells, written and read back with each byte checked.
pub(crate) fn by_cells(scene: &Scene, report: &mut Report) {
    let folder = scene.folder("cells");
    let base = format!(
        "gds --dir {} --device cuda:0 --op write,read --verify --passes 1 --file-size 16M \
         --threads 1,8 --cache as-is",
        folder.display()
    );
    for engine in ["psync", "uring"] {
        let words = format!("{base} --path {PATHS} --engine {engine} --io-size 4K,1M,16M");
        cells(
            &format!("engine {engine}"),
            &scene.report_of(&words),
            report,
        );
    }
    for memory in ["vmm", "pinned", "host", "mmap"] {
        let words = format!("{base} --path gds,gds-async,gds-batch --memory {memory} --io-size 1M");
        cells(
            &format!("{memory} memory"),
            &scene.report_of(&words),
            report,
        );
    }
    for (what, more) in [
        ("not registered", "--no-register"),
        ("depth 8", "--queue-depth 8"),
        ("waiting by spinning", "--queue-depth 4 --wait spin"),
    ] {
        let words = format!("{base} --path gds,gds-async,gds-batch --io-size 64K {more}");
        cells(what, &scene.report_of(&words), report);
    }
    // Over the files that were written before.
    let words = base.replace("--op write,read", "--op randread --unaligned");
    let words = format!("{words} --path gds,gds-async,gds-batch --io-size 64K");
    cells("unaligned", &scene.report_of(&words), report);
    on_host_memory(scene, report);
}

/// What the real library does with host memory, which needs no GPU.
fn on_host_memory(scene: &Scene, report: &mut Report) {
    let what = "real libcufile on host memory, in /dev/shm";
    let Some(mut command) = scene.on_host_memory("stormlp") else {
        return report.skip(what, "there is no libcufile");
    };
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return report.skip(what, "there is no /dev/shm");
    };
    let words = format!(
        "gds --dir {} --device host --memory host --path gds,gds-batch --op write,read --verify \
         --passes 1 --file-size 16M --threads 1,8 --io-size 4K,1M,16M --format json",
        folder.path().display()
    );
    let ended = run(command.args(words.split_whitespace()));
    cells(what, &ended.json(), report);
}

/// Whether each cell of a matrix is right, its route known and the bytes checked.
pub(crate) fn cells(what: &str, matrix: &Result<Value, String>, report: &mut Report) {
    let matrix = match matrix {
        Ok(matrix) => matrix,
        Err(why) => return report.fail(what, why),
    };
    let (mut right, mut direct, mut compat) = (0, 0, 0);
    for cell in matrix["cells"].as_array().into_iter().flatten() {
        match judge(cell) {
            Ok(route) => {
                right += 1;
                direct += u32::from(route == Route::Direct);
                compat += u32::from(route == Route::Compat);
            }
            Err(why) => {
                let of = |key: &str| cell[key].to_string();
                let name = format!(
                    "{what}: {} {} {} {} threads",
                    of("requested_path"),
                    of("op"),
                    of("io_size_bytes"),
                    of("threads")
                );
                report.fail(&name, why);
            }
        }
    }
    let words = format!(
        "{right} cells are right; cuFile took the direct route in {direct} and compatibility mode \
         in {compat}"
    );
    report.check(
        what,
        if right > 0 {
            Ok(words)
        } else {
            Err("no cell is right".to_string())
        },
    );
}

/// How a cell's bytes went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Direct,
    Compat,
    Cpu,
}

/// Holds a cell's claims against each other.
fn judge(cell: &Value) -> Result<Route, String> {
    if cell["status"] != "ok" {
        return Err(cell["reason"].to_string());
    }
    let checked = &cell["verification"];
    let reads = cell["op"] == "read" || cell["op"] == "randread";
    if reads && (checked["checked_bytes"] != cell["bytes"] || checked["mismatched_transfers"] != 0)
    {
        return Err(format!(
            "of {} bytes were checked: {checked}",
            cell["bytes"]
        ));
    }
    let (asked, ran) = (
        cell["requested_path"].as_str(),
        cell["effective_path"].as_str(),
    );
    let evidence = &cell["evidence"];
    if !asked.is_some_and(|asked| asked.starts_with("gds")) {
        return match asked == ran {
            true => Ok(Route::Cpu),
            false => Err(format!("{ran:?} ran: {}", evidence["summary"])),
        };
    }
    let count = |key: &str| evidence["cufile"][key].as_u64();
    let direct = count("p2p_operations").unwrap_or(0) + count("nvfs_operations").unwrap_or(0);
    let posix = count("posix_operations").unwrap_or(0);
    match ran {
        Some("gds-compat") if direct == 0 => Ok(Route::Compat),
        Some(ran) if Some(ran) == asked && posix == 0 => Ok(Route::Direct),
        _ => Err(format!("the route is not proved: {}", evidence["summary"])),
    }
}
