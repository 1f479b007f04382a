//! The per-rank tables of MLPerf's four models, and the formulas over random architectures.

use proptest::prelude::*;

use super::*;
use crate::plan::builtin;

fn layout(name: &str) -> Layout {
    let workload = builtin::load(name).expect("a built-in model");
    workload.layout(workload.parallelism_of_all_ranks())
}

/// Checks a range of identical ranks: the sizes of their model files and of their optimizer file.
fn check(layout: &Layout, ranks: std::ops::RangeInclusive<u64>, model: &[u64], optimizer: u64) {
    for rank in ranks {
        let files = layout.rank_files(rank);
        let bytes: Vec<u64> = files.iter().map(|file| file.bytes).collect();
        let (last, models) = bytes.split_last().expect("an optimizer file");
        assert_eq!((models, *last), (model, optimizer), "rank {rank}");
        assert_eq!(layout.rank_bytes(rank), bytes.iter().sum::<u64>());
    }
}

#[test]
fn totals_and_file_counts_match_the_table() {
    let table = [
        ("llama3-8b", 8_030_261_248, 112_425_623_552, 8, 16),
        ("llama3-70b", 69_882_617_856, 978_406_572_032, 64, 128),
        ("llama3-405b", 405_853_388_800, 5_682_508_791_808, 512, 1544),
        ("llama3-1t", 1_183_035_102_480, 16_564_174_094_592, 1024, 2072),
    ];
    for (name, parameters, total, ranks, files) in table {
        let layout = layout(name);
        assert_eq!(layout.architecture.parameters(), parameters, "{name}");
        assert_eq!(layout.total_bytes(), total, "{name}");
        assert_eq!(layout.parallelism.ranks(), ranks, "{name}");
        let all: Vec<_> = (0..ranks).flat_map(|r| layout.rank_files(r)).collect();
        assert_eq!(all.len(), files, "{name}");
        assert_eq!(all.iter().map(|file| file.bytes).sum::<u64>(), total);
    }
}

#[test]
fn every_rank_of_the_four_models_has_the_bytes_of_the_table() {
    let small = layout("llama3-8b");
    check(&small, 0..=7, &[2_007_565_312], 12_045_637_632);
    assert_eq!(small.rank_files(3)[0].tensors, 195);
    let middle = layout("llama3-70b");
    check(&middle, 0..=63, &[2_184_120_320], 13_103_482_368);
    assert_eq!(middle.rank_files(63)[0].tensors, 483);
}

#[test]
fn every_rank_of_the_405b_has_the_bytes_of_the_table() {
    let large = layout("llama3-405b");
    let (layer, optimizer) = (796_983_296, 9_513_171_840);
    let first = [525_336_576, layer, layer, layer, layer];
    check(&large, 0..=7, &first, optimizer);
    check(&large, 8..=239, &[layer; 4], optimizer);
    check(&large, 240..=247, &[layer; 3], optimizer);
    let last = [layer, layer, layer, 525_336_576, 32_768];
    check(&large, 248..=255, &last, optimizer);
    check(&large, 256..=511, &[], optimizer);
}

#[test]
fn every_rank_of_the_1t_has_the_bytes_of_the_table() {
    let largest = layout("llama3-1t");
    let (layer, edge, optimizer) = (2_297_744_064, 829_559_808, 13_865_244_924);
    check(&largest, 0..=7, &[edge, layer, layer], optimizer);
    check(&largest, 8..=503, &[layer, layer], optimizer);
    check(&largest, 504..=511, &[layer, layer, edge, 51_744], optimizer);
    check(&largest, 512..=1023, &[], optimizer);
}

#[test]
fn one_hosts_eight_ranks_write_their_share() {
    let gib = |name: &str| layout(name).first_ranks_bytes(8) as f64 / (1u64 << 30) as f64;
    let shares = ["llama3-8b", "llama3-70b", "llama3-405b", "llama3-1t"].map(gib);
    let table = [104.70, 113.90, 98.54, 143.72];
    for (share, expected) in shares.iter().zip(table) {
        assert!((share - expected).abs() < 0.005, "{share} {expected}");
    }
}

#[test]
fn files_are_named_as_dlio_names_them() {
    let names = |layout: &Layout, rank| -> Vec<String> {
        let files = layout.rank_files(rank);
        files.into_iter().map(|file| file.name).collect()
    };
    let zero3 = layout("llama3-70b");
    assert_eq!(
        names(&zero3, 11),
        ["zero_pp_rank_1_mp_rank_3_model_states.pt", "zero_pp_rank_1_mp_rank_3_optim_states.pt"]
    );
    let zero1 = layout("llama3-405b");
    let last = names(&zero1, 255);
    assert_eq!(last[0], "layer_124-model_255_model_states.pt");
    assert_eq!(last[4], "layer_128-model_255_model_states.pt");
    assert_eq!(last[5], "zero_pp_rank_0_mp_rank_255_optim_states.pt");
    assert_eq!(names(&zero1, 256), ["zero_pp_rank_1_mp_rank_0_optim_states.pt"]);
    let mut one_stage = zero3;
    one_stage.parallelism.zero_stage = ZeroStage::Two;
    assert_eq!(names(&one_stage, 3)[0], "model_3_model_states.pt");
}

#[test]
fn without_zero_only_the_first_replica_owns_anything() {
    let mut plain = layout("llama3-70b");
    plain.parallelism.zero_stage = ZeroStage::Zero;
    assert_eq!(plain.rank_files(8), []);
    let first = plain.rank_files(7);
    assert_eq!(first[0].name, "zero_pp_rank_0_mp_rank_7_model_states.pt");
    assert_eq!(plain.optimizer_parameters(), 69_882_617_856 / 8);
}

#[test]
fn dlio_counts_the_model_of_every_replica_under_zero_2() {
    let mut two = layout("llama3-405b");
    two.parallelism.zero_stage = ZeroStage::Two;
    assert_eq!(two.rank_bytes_as_dlio_counts(256), two.rank_bytes(0));
    assert_eq!(two.rank_bytes_as_dlio_counts(0), two.rank_bytes(0));
    let one = layout("llama3-405b");
    assert_eq!(one.rank_bytes_as_dlio_counts(256), one.rank_bytes(256));
}

prop_compose! {
    fn any_layout()(
        head in 1u64..40, heads in 1u64..17, rest in 0u64..16, groups in 1u64..17,
        vocab_size in 1u64..5000, ffn_hidden_size in 1u64..3000, num_layers in 1u64..40,
        tensor in 1u64..9, pipeline in 1u64..9, data in 1u64..9, stage in 0u8..4,
    ) -> Layout {
        Layout {
            architecture: Architecture {
                vocab_size,
                hidden_size: head * heads + rest % heads,
                ffn_hidden_size,
                num_layers,
                num_attention_heads: heads,
                num_kv_heads: groups.min(heads),
            },
            parallelism: Parallelism {
                tensor, pipeline, data,
                zero_stage: ZeroStage::try_from(stage).expect("0 to 3"),
            },
            model_datatype: DataType::Fp16,
            optimizer_datatype: DataType::Fp32,
        }
    }
}

/// The elements of one numbered layer, tensor by tensor, taken directly from the specification.
fn tensors(layout: &Layout, layer: u64) -> Vec<u64> {
    let model = layout.architecture;
    let (h, f, v) = (model.hidden_size, model.ffn_hidden_size, model.vocab_size);
    let kv = h / model.num_attention_heads * model.num_kv_heads;
    let tp = layout.parallelism.tensor;
    let s = match layout.parallelism.zero_stage {
        ZeroStage::Three => layout.parallelism.data,
        _ => 1,
    };
    if layer == 0 || layer == model.num_layers + 1 {
        vec![h * v / tp / s]
    } else if layer == model.num_layers + 2 {
        vec![h / s]
    } else {
        let qkv = h * (h + 2 * kv) / tp / s;
        vec![h / s, qkv, h * h / tp / s, h / s, 2 * h * f / tp / s, h * f / tp / s]
    }
}

proptest! {
    #[test]
    fn every_byte_of_the_formulas_is_written_once(layout in any_layout()) {
        let spread = layout.parallelism;
        let mut names = std::collections::BTreeSet::new();
        let (mut written, mut by_rank) = (0u64, 0u64);
        for rank in 0..spread.ranks() {
            by_rank += layout.rank_bytes(rank);
            for file in layout.rank_files(rank) {
                prop_assert!(file.bytes > 0);
                prop_assert!(names.insert(file.name.clone()), "{} twice", file.name);
                written += file.bytes;
            }
        }
        // Each numbered layer once per tensor share; under ZeRO 3 also once per replica.
        let all_layers = 0..=layout.architecture.num_layers + 2;
        let share: u64 = all_layers.flat_map(|layer| tensors(&layout, layer)).sum();
        let replicas = if spread.zero_stage == ZeroStage::Three { spread.data } else { 1 };
        let model = 2 * share * spread.tensor * replicas;
        let owners = match spread.zero_stage {
            ZeroStage::Zero => spread.model_parallel(),
            _ => spread.ranks(),
        };
        let p = layout.architecture.parameters() as u64 / owners;
        let optimizer = 4 * owners * (3 * p + 15 * layout.architecture.hidden_size);
        prop_assert_eq!(written, model + optimizer);
        prop_assert_eq!((by_rank, layout.total_bytes()), (written, written));
    }

    #[test]
    fn the_total_is_near_14_bytes_a_parameter(layout in any_layout()) {
        let (model, spread) = (layout.architecture, layout.parallelism);
        let ideal = 14 * model.parameters() as i128;
        let distance = i128::from(layout.total_bytes()) - ideal;
        let (h, layers) = (i128::from(model.hidden_size), i128::from(model.num_layers));
        let tp = i128::from(spread.tensor);
        let shares = match spread.zero_stage {
            ZeroStage::Three => tp * i128::from(spread.data),
            _ => tp,
        };
        let owners = match spread.zero_stage {
            ZeroStage::Zero => i128::from(spread.model_parallel()),
            _ => i128::from(spread.ranks()),
        };
        // Upper bound: every tensor share holds the norms, and every owner small optimizer tensors.
        let above = 2 * (tp - 1) * h * (2 * layers + 1) + 60 * h * owners;
        // Lower bound: each division of a tensor loses less than one element per part.
        let below = 2 * shares * (6 * layers + 3) + 12 * owners;
        prop_assert!(distance <= above, "{distance} above {above}");
        prop_assert!(distance >= -below, "{distance} below {below}");
    }

    #[test]
    fn any_number_of_first_ranks_adds_up(layout in any_layout(), part in 0.0f64..1.0) {
        let ranks = (part * layout.parallelism.ranks() as f64) as u64;
        let sum: u64 = (0..ranks).map(|rank| layout.rank_bytes(rank)).sum();
        prop_assert_eq!(layout.first_ranks_bytes(ranks), sum);
    }
}
