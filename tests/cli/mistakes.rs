//! Command lines that people type by mistake: each answer names what to type instead.

use crate::stormlp;

/// The command line, the exit code, and the text that the answer contains.
const MISTAKES: [(&str, i32, &str); 107] = [
    ("gds --io-size 1X", 2, "write a number with K, M, G"),
    ("gds --iosize 1M", 2, "'--io-size'"),
    ("gds --bs 4k", 2, "--bs is --io-size here"),
    ("gds --iodepth 32", 2, "--iodepth is --queue-depth here"),
    ("gds --rw randread", 2, "--rw is --op here"),
    ("gds --numjobs 4", 2, "--numjobs is --threads here"),
    ("gds --block 4k", 2, "--block is --io-size here"),
    ("gds --timelimit 5", 2, "--timelimit is --duration here"),
    ("gds --rand", 2, "--rand is --op randread here"),
    ("gds --export a.csv", 2, "--export is --output FILE"),
    ("gds --path gpu", 2, "did you mean `cpu`?"),
    ("gds --path direct", 2, "--path cpu, which opens files with O_DIRECT"),
    ("gds --dir /nonexistent/x", 4, "mkdir -p"),
    ("gds --file nofile", 4, "--file-size to create it"),
    ("gds --tune numa=5000", 4, "leave the node out"),
    ("gds -w 8 -s 1G", 2, "`stormlp gdsio` accepts gdsio's arguments"),
    ("gds -I 0", 2, "`stormlp gdsio` accepts gdsio's arguments"),
    ("train unet", 3, "did you mean `unet3d`?"),
    ("train unet3d --accelerator h200", 3, "set --compute-time"),
    ("train unet3d --params batch_size=4", 3, "did you mean `reader.batch_size`?"),
    ("train --workload unet3d", 2, "give WORKLOAD alone, without --workload"),
    ("train unet3d --num-accelerators 4", 2, "--num-accelerators is --accelerators here"),
    ("train unet3d --accelerator-type h100", 2, "--accelerator-type is --accelerator here"),
    ("train llama3-8b", 3, "type `stormlp checkpoint llama3-8b`"),
    ("plan llama3-8b --storage read=1GB/s", 3, "`stormlp plan WORKLOAD --checkpoint llama3-8b`"),
    ("datasize llama3.1-8b", 3, "type `stormlp kvcache serving llama3.1-8b`"),
    ("datagen llama3-8b", 3, "type `stormlp checkpoint llama3-8b`"),
    ("checkpoint unet3d", 3, "type `stormlp train unet3d`"),
    ("kvcache serving unet3d", 3, "type `stormlp train unet3d`"),
    ("kvcache size llama3-405b", 3, "type `stormlp checkpoint llama3-405b`"),
    ("workloads show unet", 3, "did you mean `unet3d`?"),
    ("train lama3-8b", 3, "unknown workload `lama3-8b`"),
    ("train unet3d --mtbf 5h", 2, "--mtbf is an option of plan"),
    ("checkpoint --model llama3-8b", 2, "give MODEL|FILE.yaml alone, without --model"),
    ("checkpoint llama3-8b --checkpoint-folder x", 2, "--checkpoint-folder is --dir here"),
    ("checkpoint llama3-8b --num-processes 8", 2, "--num-processes is --ranks here"),
    ("plan", 2, "`stormlp plan unet3d --storage 4x:read=14.5GB/s,latency=80us`"),
    ("plan cosmoflow", 2, "`stormlp plan cosmoflow --storage 4x:read=14.5GB/s,latency=80us`"),
    ("plan unet3d --storage read=1GB/s --host-memory 1TiB", 2, "'--host'"),
    ("plan unet3d --storage read=1GB/s --host 1TiB", 2, "use memory=1TiB,cpus=104"),
    ("plan unet3d --storage read=1GB/s --client-overhead stp=1ms", 2, "use step=0.7ms,gib=0.9s"),
    ("plan unet3d --storage 14GB/s", 2, "--storage read=14GB/s"),
    ("plan unet3d --storage 4x:14GB/s,queue=9", 2, "--storage 4x:read=14GB/s,queue=9"),
    ("report", 4, "run `stormlp gds` first"),
    ("report list", 4, "then `stormlp report`"),
    ("report a b", 2, "`stormlp report show PATH...` shows several"),
    ("report show", 2, "`stormlp report` lists the reports"),
    ("report show --kind gds", 2, "--kind is an option of report"),
    ("compare a", 2, "stormlp compare BASELINE CANDIDATE"),
    ("submission rehearse unet3d", 2, "use one of check"),
    ("submission system-yaml", 2, "`stormlp submission describe` does this"),
    ("submission check . --json", 2, "--json is --format json here"),
    ("calibrate", 2, "`stormlp calibrate-dlio` does this"),
    ("doctor --launch h1", 2, "`stormlp launch` is a command"),
    ("frobnicate", 2, "use one of gds, gdsio, train"),
    ("datasize unet3d --num-client-hosts 2", 2, "--num-client-hosts is --hosts here"),
    ("datasize unet3d --client-host-memory-in-gb 512", 2, "--host memory=512GiB"),
    ("datasize unet3d --max-accelerators 8", 2, "--max-accelerators is --accelerators here"),
    ("datasize unet3d --host cpus=4", 2, "use --host memory=1TiB"),
    ("train unet3d --params a=1 b=7", 2, "`stormlp train unet3d --params a=1 --params b=7`"),
    ("train --params a=b c=d unet3d", 2, "`stormlp train --params a=b --params c=d unet3d`"),
    ("datagen --params a=b c=d unet3d", 2, "`stormlp datagen --params a=b --params c=d unet3d`"),
    ("train --params a=b c=d", 3, "each --params has one value: --params c=d"),
    ("train unet3d --path null --cache cold", 2, "--cache has no effect"),
    ("kvcache --cache-dir x", 2, "--cache-dir is --dir here"),
    ("kvcache", 2, "stormlp kvcache <COMMAND>"),
    ("kvcache llama3.1-8b", 2, "such as `stormlp kvcache serving llama3.1-8b`"),
    ("kvcache mlperf llama3-8b", 3, "use `llama3.1-8b`"),
    ("checkpoint llama3.1-8b", 3, "`stormlp checkpoint llama3-8b`"),
    ("kvcache --find-max", 2, "--find-max is an option of"),
    ("kvcache mlperf --prefill-rate 20000", 2, "is an option of kvcache serving"),
    ("kvcache serving --find-max", 2, "--prefill-rate <TOKENS>"),
    ("kvcache serving --users 3", 2, "--users is an option of kvcache mlperf"),
    ("kvcache replay --trace kv.csv", 2, "give FILE alone, without --trace"),
    ("gds --group_reporting", 2, "all threads are reported together"),
    ("gds --name test", 2, "--name is --tag name=VALUE here"),
    ("gds --refill_buffers", 2, "--tune regenerate=yes"),
    ("gds --hosts h1,h2", 2, "`stormlp launch h1,h2` shows how"),
    ("gds --cufile", 2, "--cufile is --path gds here"),
    ("gds --rwmixpct 30", 2, "--rwmixpct is --read-percent here"),
    ("gds --zones 0", 2, "--zones is --tune numa=N here"),
    ("gds --cpus 0-3", 2, "--cpus is --tune cpus=LIST here"),
    ("gds --memory host", 2, "--memory is --buffer-memory here"),
    ("gds --cold", 2, "--cold is --cache cold here"),
    ("gds --passes 2", 2, "--passes is --duration 2x"),
    ("gds --csv x", 2, "--csv is --format csv here"),
    ("gds --version", 2, "`stormlp --version` shows it"),
    ("gds --engine libaio", 2, "libaio is --engine uring here"),
    ("gds --tune batch=4", 2, "the keys are pages, wait"),
    ("gds read", 2, "stormlp gds --dir read"),
    ("train", 2, "for example `stormlp train unet3d`"),
    ("train --model unet3d", 2, "give WORKLOAD alone, without --model"),
    ("train unet3d ++workload.train.epochs=3", 2, "use --params train.epochs=3"),
    ("train unet3d --workload.train.epochs=3", 2, "use --params train.epochs=VALUE"),
    ("train unet3d --batch-size 4", 2, "--batch-size is --params reader.batch_size=N here"),
    ("train unet3d --generate full", 2, "use --generate=full"),
    ("train unet3d --exec-type mpi", 2, "`stormlp launch h1,h2` shows how"),
    ("train unet3d --loops 5", 2, "--loops is --runs here"),
    ("checkpoint llama3-70b --num-checkpoints-write 10", 2, "is --saves here"),
    ("checkpoint llama3-70b --profile v2", 2, "--profile is --edition here"),
    ("checkpoint", 2, "for example `stormlp checkpoint llama3-8b`"),
    ("datagen unet3d --num-processes 8", 2, "`stormlp launch h1,h2` shows how"),
    ("datagen unet3d --engine uring", 2, "--engine is --tune engine=NAME here"),
    ("kvcache mlperf --num-users 3", 2, "--num-users is --users here"),
    ("kvcache mlperf --trials 3", 2, "--trials is --runs here"),
    ("training run", 2, "`stormlp train` does this"),
    ("doctor --verbose", 2, "--verbose is --details here"),
];

#[test]
fn every_mistake_is_answered_with_what_to_type() {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for (typed, code, answer) in MISTAKES {
        let mut command = stormlp();
        command.current_dir(folder.path()).args(typed.split(' ')).env("COLUMNS", "80");
        let output = command.output().unwrap();
        // Words matter, not line breaks.
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        if output.status.code() != Some(code) || !said.contains(answer) || said.contains("to pass")
        {
            wrong.push(format!("{typed}\n  {:?}: {said}\n  not: {answer}", output.status.code()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
