//! Ranks spread over directories of several file systems: auto-scaled checkpoints fit on each.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

/// A model of eight layers, four ranks per replica, on directories `(file system, free MiB)`.
fn spread(
    ranks: u64,
    writes: Option<u32>,
    places: &[(u64, u64)],
) -> (CheckpointRequest, CheckpointFacts) {
    let text = "model:\n  name: mine\n  type: transformer\n  num_layers: 8\n  \
                model_datatype: fp16\n  optimizer_datatype: fp32\n  \
                parallelism: {tensor: 2, pipeline: 2, zero_stage: 1}\n  \
                transformer: {vocab_size: 1000, hidden_size: 512, ffn_hidden_size: 1024, \
                num_attention_heads: 8, num_kv_heads: 4}\n";
    let mut request =
        CheckpointRequest::plain(parse(text, "my.yaml").expect("a workload"), "0".into());
    request.ranks = Some(ranks.into());
    request.scale = Some(ScaleChoice::Auto);
    request.saves = writes;
    request.folders = (0..places.len()).map(|i| (&i.to_string()).into()).collect();
    let folders = places.iter().enumerate().map(|(index, place)| FolderFacts {
        file_system_id: place.0,
        ..folder(&index.to_string(), place.1 * MIB)
    });
    let facts = CheckpointFacts {
        folders: folders.collect(),
        saved: Vec::new(),
        last_run: 0,
        trial_bytes_per_second: Some(1e9),
    };
    (request, facts)
}

#[test]
fn ranks_that_do_not_divide_evenly_among_directories_are_scaled_not_refused() {
    for free in [40, 60, 90, 116, 150] {
        let places = [(1, free), (2, free), (3, free)];
        let (mut request, facts) = spread(8, Some(1), &places);
        request.restores = Some(0);
        assert!(plan(&request, &facts).total_bytes > 0, "{free} MiB");
    }
}

proptest! {
    #[test]
    fn what_auto_takes_fits_in_half_of_each_file_system(
        replicas in 1u64..5, writes in proptest::option::of(1u32..4),
        places in proptest::collection::vec((0u64..3, 16u64..300), 1..6)
    ) {
        let (request, facts) = spread(4 * replicas, writes, &places);
        let resolution = resolve(&request, &host(), &facts);
        let plan = resolution.plan.expect("a plan, if only to say what does not fit");
        // Two ranks share each tensor.
        let smallest = (plan.scaling.layers, plan.scaling.ranks) == (1, 2);
        // A refusal means that not even the smallest part fits.
        prop_assert!(resolution.problems.is_empty() || smallest, "{:?}", resolution.problems);
        if plan.is_scaled() && !smallest {
            for (free, members) in facts.file_systems() {
                let there = plan.ranks.iter().filter(|rank| members.contains(&rank.folder));
                let share: u64 = there.map(|rank| rank.bytes).sum();
                prop_assert!(share * u64::from(plan.writes) <= free.unwrap() / 2);
            }
        }
    }
}
