//! Tests of gdsio's options.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::plan::choice::CellSpan;
use crate::plan::choice::{IoSize, PathChoice};
use crate::plan::request::{JobTarget, MatrixRequest, SharedFile};
use stormlp_core::operation::Operation;
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_core::transport::DeviceId;
use stormlp_core::units::{GIB, KIB, MIB};

fn args(line: &str) -> Result<GdsioArgs, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    parse_args(&words)
}

fn run(line: &str) -> GdsioRun {
    match args(line).unwrap() {
        GdsioArgs::Run(run) => *run,
        other => panic!("{other:?}"),
    }
}

fn request(line: &str) -> MatrixRequest {
    run(line).to_request().unwrap()
}

fn refusal(line: &str) -> String {
    match args(line) {
        Ok(GdsioArgs::Run(run)) => run.to_request().unwrap_err().to_string(),
        Ok(other) => panic!("{other:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_guides_example_is_one_cell() {
    let request = request("-f /mnt/test -d 0 -n 1 -w 4 -s 10G -i 1M -x 0 -I 1");
    assert_eq!(request.paths, PathChoice::each(&[PathKind::Gds]));
    assert_eq!(request.ops, [Operation::Write]);
    assert_eq!(request.file_size_bytes, Some(10 * GIB));
    assert_eq!(request.span(), CellSpan::Passes(1));
    assert_eq!(request.shared_file, SharedFile::Split);
    let job = &request.jobs[0];
    assert_eq!((job.threads, job.numa_node), (Some(4), Some(1)));
    assert_eq!(job.device, Some(DeviceId::nvidia(0)));
}

#[test]
fn job_options_belong_to_the_file_before_them() {
    let request = request("-x 2 -I 0 -T 10 -i 1M -f /a -d 0 -w 8 -f /b -d 3 -n 1 -w 2");
    let jobs: Vec<_> = request.jobs.iter().map(|j| (j.device, j.numa_node, j.threads)).collect();
    let (a, b) = (Some(DeviceId::nvidia(0)), Some(DeviceId::nvidia(3)));
    assert_eq!(jobs, [(a, None, Some(8)), (b, Some(1), Some(2))]);
    assert_eq!(request.span(), CellSpan::Seconds(10.0));
    assert_eq!(request.shared_file, SharedFile::Whole);
}

#[test]
fn with_one_target_the_options_of_its_job_stand_anywhere() {
    let plain = run("-D /d -d 2 -n 1 -w 8 -s 1G -x 0");
    for line in [
        "-d 2 -n 1 -w 8 -s 1G -x 0 -D /d",
        "-x 0 -s 1G -w8 -D /d -n 1 -d 2",
        "-w 8 -d 2 -x 0 -D/d -s 1G -n 1",
    ] {
        assert_eq!(run(line), plain, "{line}");
    }
}

/// Command lines from NVIDIA's guides, then from users' scripts.
const KNOWN_LINES: [&str; 16] = [
    "-x 0 -d 0 -s 8K -i 4K -f testfile.out -I 1",
    "-x 2 -d 0 -s 8K -i 4K -f testfile.out -I 1",
    "-D /nvme23/gds_dir -d 2 -w 8 -s 500M -i 1M -x 0 -I 0 -T 120",
    "-D /mnt/nvme1n1/gdstest -d 0 -w 4 -x 1 -I 1 -s 1g -i 1m -V",
    "-f /mnt/ai200/fio-seq-writes-1 -d 0 -w 4 -s 10G -i 1M -I 0 -x 6",
    "-f /mnt/ai200/test -d 0 -n 0 -w 1 -s 1G -i 4K -x 0 -I 1",
    "-f /mnt/RDMA/testfile -d 0 -m 0 -s 10G -i 1M -w 10 -x 0 -I 1",
    "-f /mnt/test10G -d 0 -n 0 -w 1 -s 10G -x 0 -I 0 -T 10 -i 256K",
    "-f /dev/nvme0n1 -d 0 -n 0 -w 1 -s 10G -x 2 -I 2 -T 10 -i 8192K",
    "-D /data -d 1 -w 8 -s 1G -i 16M -x 0 -I 1 -T 30",
    "-D ./ -w 256 -d 0 -I 1 -x 0 -s 1K -i 1K",
    "-f /mnt/lustre/test.bin -d 0 -s 64M -i 64M -x 1 -I 1 -T 8",
    "-x 0 -I 1 -i 1M -s 512G -f /mnt/d1/t -d 0 -n 0 -w 8 -f /mnt/d2/t -d 3 -n 0 -w 8",
    "-D /weka/gdsio0 -d 0 -n 0 -w 32 -D /weka/gdsio1 -d 1 -n 0 -w 32 -x 0 -s 4G -i 1M -I 0 -T 60",
    "-I 3 -x 5 -k 7 -i 4k -s 1G -T 10 -w 16 -d 0 -f /mnt/file",
    "-T 60 -s 1G -i 1M -x 0 -I 0 -w 4 -d 0 -D /mnt/nvme",
];

#[test]
fn the_lines_of_guides_and_scripts_are_taken() {
    for line in KNOWN_LINES {
        let request = request(line);
        let first = request.jobs[0].device;
        let emulated = {
            let mut request = request.clone();
            emulate(&mut request, &stormlp_fixtures::host());
            request
        };
        let path = emulated.paths()[0];
        assert!(!path.needs_cufile(), "{line}");
        if path.ends_in_accelerator() {
            assert!(matches!(first, Some(DeviceId::Gpu { .. })), "{line}");
            let hosts = emulated.jobs.iter().map(|job| job.device);
            assert!(hosts.clone().all(|d| d == Some(DeviceId::Host)), "{line}");
        }
    }
}

#[test]
fn emulation_uses_cufile_if_available_and_reports_the_substitute() {
    let mut facts = stormlp_fixtures::host();
    let line = "-D /d -d 3 -w 4 -x 0";
    let mut without = request(line);
    let note = emulate(&mut without, &facts).unwrap();
    assert!(note.contains("-x 0 runs as -x 2"), "{note}");
    assert_eq!(without.paths, PathChoice::each(&[PathKind::CpuGpu]));
    facts.paths = vec![stormlp_core::facts::PathSupport {
        path: PathKind::Gds,
        availability: stormlp_core::facts::Availability::Available,
    }];
    let mut with = request(line);
    assert_eq!(emulate(&mut with, &facts), None);
    assert_eq!(with.paths, PathChoice::each(&[PathKind::Gds]));
    assert_eq!(with.buffer_memory, MemoryKind::Host);
    let mut plain = request("-D /d -d 3 -w 4 -x 1");
    let asked = plain.clone();
    assert_eq!(emulate(&mut plain, &facts), None);
    assert_eq!(plain, asked);
}

#[test]
fn workers_of_the_batch_types_are_entries_of_a_batch() {
    let request = request("-D /d -w 32 -x 6 -i 4K");
    assert_eq!((request.queue_depths, request.jobs[0].threads), (vec![32], Some(1)));
    let request = self::request("-D /d -w 32 -B 8 -x 7 -i 4K");
    assert_eq!(request.queue_depths, [8]);
}

#[test]
fn values_may_follow_their_letter_directly_and_switches_may_be_combined() {
    let spread = run("-D /d -w 4 -V -U -I 2 -x 1 -i 4K");
    assert_eq!(run("-D/d -w4 -VU -I2 -x1 -i4K"), spread);
    assert!(spread.request.verify);
    assert_eq!(spread.request.tune.random_alignment_bytes, 1);
}

#[test]
fn all_sizes_are_powers_of_1024() {
    assert_eq!(run("-D /d -s 3.5g -i 1MB").request.file_size_bytes, Some(7 * GIB / 2));
    assert_eq!(run("-D /d -i 1MB").request.io_sizes, [IoSize::fixed(MIB)]);
    let mix = run("-D /d -i 32K:1024K:1K").request.io_sizes[0];
    assert_eq!((mix.min_bytes, mix.max_bytes, mix.step_bytes), (32 * KIB, MIB, KIB));
}

#[test]
fn verified_writes_are_read_back() {
    assert_eq!(request("-D /d -I 1 -V").ops, [Operation::Write, Operation::Read]);
    assert_eq!(request("-D /d -I 3 -V").ops, [Operation::RandWrite, Operation::RandRead]);
    assert_eq!(request("-D /d -I 0 -V").ops, [Operation::Read]);
}

#[test]
fn without_o_direct_the_paths_go_through_the_page_cache() {
    let path = |line: &str| run(line).path().unwrap();
    assert_eq!(path("-D /d -x 1 -O 1"), PathKind::Buffered);
    assert_eq!(path("-D /d -x 1 -O 0"), PathKind::Cpu);
    assert_eq!(path("-D /d -x 2 -O 1"), PathKind::PageCache);
    for (number, kind) in [
        (0, PathKind::Gds),
        (5, PathKind::GdsAsync),
        (6, PathKind::GdsBatch),
        (7, PathKind::GdsBatchStream),
    ] {
        // cuFile accepts files opened without `O_DIRECT` and chooses the I/O path.
        let line = format!("-D /d -x {number} -O 1");
        assert_eq!(path(&line), kind);
        assert!(!request(&line).open_direct);
        assert!(request(&format!("-D /d -x {number}")).open_direct);
    }
    assert!(refusal("-D /d -x 3 -O 1").contains("-O 1 with -x 3"));
}

#[test]
fn what_has_no_meaning_is_refused_by_name() {
    for (line, named) in [
        ("-P sockfs://1.2.3.4:18515", "`-P`"),
        ("-D /d -M 300", "-M 300"),
        ("-D /d -Z", "`-Z`"),
        ("--threads 4", "`--threads`"),
        ("-D /d -x 9", "-x 9"),
        ("-D /d -x 2 -m 3", "-m 3"),
        ("-D /d -m 7", "-m 7"),
        ("-D /d -I 4", "-I 4"),
        ("-D /d -i x", "-i x"),
        ("-D /d -i 2G", "-i 2G"),
        ("-D /d -w 0", "-w 0"),
        ("-D /d -s 0", "-s 0"),
        ("-D /d -T 0", "-T 0"),
        ("-D /d -i 4M:1M:1M", "-i 4M:1M:1M"),
        ("-D /d -w", "`-w`"),
        ("-D /d -x 0 -p", "`-p"),
        ("-w 4 -D /d -D /e", "`-w`"),
        ("-d 0 -x 1", "`-d`"),
        ("-D /d -f /f", "cannot be combined"),
        ("-x 1", "-D"),
        ("a.gdsio b.gdsio", "one job file"),
        ("a.gdsio -x 1", "job file"),
        ("-f /a -s 1G -f /b -s 2G", "`-s 2G` after `-s 1G`"),
        ("-f /a -i 4K -f /b -i 8K", "its io_size"),
        ("-f /a -o 4K -f /b -o 8K", "and start_offset"),
        ("-x 0 -f /a -x 1 -f /b", "`-x 1` after `-x 0`"),
        ("-D /d -w 2 -w 4", "a job has one of it"),
        ("-f /a -w 2 -w 4 -f /b", "`-w 4` after `-w 2`"),
    ] {
        let message = refusal(line);
        assert!(message.contains(named), "{line}: {message}");
    }
    assert_eq!(run("-f /a -s 1G -w 2 -f /b -s 1G -w 2").request.jobs.len(), 2);
}

const JOB_FILE: &str = "\
# a sample
[global]
name=gds-test
xfer_type=$TYPE
rw=randread
bs=1M:4M:1M # a mix
size=1G
runtime=30
do_verify=0

[job1]
numa_node=0
gpu_dev_id=0
num_threads=8
directory=${ROOT}/one

[job2]
gpu_dev_id=4
num_threads=2
filename=/mnt/two
start_offset=1M
";

fn environment(name: &str) -> Option<String> {
    match name {
        "TYPE" => Some("2".to_string()),
        "ROOT" => Some("/mnt".to_string()),
        _ => None,
    }
}

#[test]
fn a_job_file_is_read_with_its_variables() {
    let run = parse_job_file(JOB_FILE, &environment).unwrap();
    let request = &run.request;
    assert_eq!((request.name.as_str(), run.transfer_type), ("gds-test", 2));
    assert_eq!(
        (&request.ops[..], request.span()),
        (&[Operation::RandRead][..], CellSpan::Seconds(30.0))
    );
    assert_eq!(request.io_sizes[0].count(), 4);
    assert_eq!(request.jobs[0].target, JobTarget::Folder(PathBuf::from("/mnt/one")));
    assert_eq!(request.jobs[1].offset_bytes, MIB);
    let gpu = Some(DeviceId::nvidia(4));
    assert_eq!((request.jobs[1].threads, request.jobs[1].device), (Some(2), gpu));
}

#[test]
fn faults_of_a_job_file_are_named_with_their_place() {
    for (text, named) in [
        ("[global]\nrw=read\nbogus=1\n", "bogus"),
        ("rw=read\n", "line 1"),
        ("[global]\nxfer_type=$NOT_SET\n", "`NOT_SET`"),
        ("[job1]\nnum_threads=1\n", "[job1]"),
        ("[job1]\ndirectory=/a\nfilename=/b\n", "more than one"),
        ("[job1]\nrdma_url=sockfs://1.2.3.4:5\n", "rdma_url"),
        ("[global]\nwhat is this\n", "line 2"),
        ("[global]\ndo_verify=yes\n", "do_verify yes"),
        (
            "[job2]\nsize=1G\n",
            "line 2: `size` applies to all jobs, so it belongs in [global] and not in [job2]",
        ),
        ("[job2]\nbs=1M\n", "or use io_size here"),
        ("[global]\nsize=1G\nsize=2G\n", "line 3: `size=2G` after `size=1G`"),
        ("[j]\nnum_threads=1\nnum_threads=2\n", "line 3: `num_threads=2` after"),
    ] {
        let message = parse_job_file(text, &environment).unwrap_err().to_string();
        assert!(message.contains(named), "{text}: {message}");
    }
}

proptest! {
    #[test]
    fn no_command_line_makes_it_panic(words in prop::collection::vec("[-a-zA-Z0-9:./]{0,8}|-[a-zA-Z]", 0..8)) {
        if let Ok(GdsioArgs::Run(run)) = parse_args(&words) {
            let _ = run.to_request();
        }
    }

    #[test]
    fn no_job_file_makes_it_panic(text in "(\\[[a-z0-9]{0,6}\\]?|[a-z_]{1,10}=?[$0-9a-zA-Z{}/:]{0,8}|.{0,12}|\n){0,12}") {
        if let Ok(run) = parse_job_file(&text, &environment) {
            let _ = run.to_request();
        }
    }

    #[test]
    fn every_flag_with_a_number_is_taken_as_it_is_meant(workers in 1u32..999, size in 1u64..9999, seed: u32) {
        let run = run(&format!("-D /d -w {workers} -s {size}K -k {seed}"));
        prop_assert_eq!(run.request.jobs[0].threads, Some(workers));
        prop_assert_eq!(run.request.file_size_bytes, Some(size * KIB));
        prop_assert_eq!(run.request.tune.seed, u64::from(seed));
    }
}
