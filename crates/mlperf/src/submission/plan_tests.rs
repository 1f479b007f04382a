//! Plans, and requests that are refused.

use super::*;
use stormlp_checkpoint::plan::builtin;
use stormlp_training::plan::catalog;

pub(in crate::submission) fn request(edition: Edition) -> PlanRequest {
    PlanRequest {
        edition,
        accelerators: 8,
        hosts: vec!["h1".to_string(), "h2".to_string()],
        host_memory_bytes: 64 * GIB,
        write_bytes_per_second: Some(1e9),
        read_bytes_per_second: Some(2e9),
        data: "/data".to_string(),
        checkpoints: "/ckpt".to_string(),
        results: "/my results".to_string(),
        organisation: "acme".to_string(),
        system: "fast".to_string(),
        checkpoint_accelerator: "b200".to_string(),
    }
}

fn unet3d(accelerator: &str) -> Planned {
    let entry = catalog::find("unet3d", Some(accelerator)).unwrap();
    Planned::Training(Box::new(entry.workload(&[]).unwrap()))
}

#[test]
fn a_campaign_has_the_sizes_of_datasize_and_all_commands_in_order() {
    let model = Planned::Checkpointing(Box::new(builtin::load("llama3-8b").unwrap()));
    for (edition, accelerator) in [(Edition::V2, "h100"), (Edition::V3, "b200")] {
        let campaign = plan(&[unet3d(accelerator), model.clone()], &request(edition)).unwrap();
        assert_eq!((campaign.results[0].files, campaign.results[0].runs), (28_000, 6));
        assert_eq!(campaign.results[1].disk_bytes, 1_124_256_235_520);
        assert!(campaign.estimated_seconds.unwrap() > 4104.0);
        let steps = campaign
            .steps
            .iter()
            .map(|step| format!("# {}\n{}", step.what, step.command))
            .collect::<Vec<String>>()
            .join("\n");
        insta::assert_snapshot!(format!("steps_of_{edition}"), steps);
    }
}

#[test]
fn checkpoints_larger_than_memory_are_written_and_read_in_one_run() {
    let model = Planned::Checkpointing(Box::new(builtin::load("llama3-8b").unwrap()));
    let commands = |edition, gib: u64| -> Vec<String> {
        let mut request = request(edition);
        request.host_memory_bytes = gib * GIB;
        let steps = plan(std::slice::from_ref(&model), &request).unwrap().steps.into_iter();
        steps.map(|step| step.command).filter(|command| command.contains("checkpointing")).collect()
    };
    let counts = |command: &str| command.matches("--num-checkpoints-write").count();
    // Ten checkpoints of 104.7 GiB against three times the memory of the one host that they need.
    let one = commands(Edition::V3, 64);
    assert_eq!((one.len(), counts(&one[0])), (1, 1));
    assert!(one[0].ends_with("--num-checkpoints-write 10 --num-checkpoints-read 10"), "{}", one[0]);
    for (edition, gib) in [(Edition::V3, 512), (Edition::V2, 64)] {
        let two = commands(edition, gib);
        assert_eq!((two.len(), counts(&two[0])), (1, 2));
        assert!(two[0].contains("drop_caches"), "{}", two[0]);
    }
}

#[test]
fn a_workload_named_twice_is_one_result() {
    let once = plan(&[unet3d("b200")], &request(Edition::V3)).unwrap();
    let twice = plan(&[unet3d("b200"), unet3d("b200")], &request(Edition::V3)).unwrap();
    assert_eq!(twice, once);
}

#[test]
fn the_rules_of_hosts_are_kept() {
    let mut request = request(Edition::V3);
    request.accelerators = 3;
    let message = plan(&[unet3d("b200")], &request).unwrap_err().to_string();
    assert!(
        message.contains("3 accelerators on 2 hosts") && message.contains("3.3.6"),
        "{message}"
    );
    let hosts: Vec<String> = ["h1", "h2", "h3"].map(str::to_string).to_vec();
    let taken = |edition, ranks| hosts_of_ranks(edition, &hosts, ranks).map(<[String]>::len);
    // Four ranks per host are enough in v2.0, and too few in v3.0.
    assert_eq!(taken(Edition::V2, 8), Some(2));
    assert_eq!(taken(Edition::V3, 8), Some(1));
    assert_eq!(taken(Edition::V3, 64), Some(3));
    assert_eq!(taken(Edition::V3, 4), None);
}

#[test]
fn names_and_folders_that_break_rules_are_refused() {
    let refused = |change: fn(&mut PlanRequest)| {
        let mut request = request(Edition::V3);
        change(&mut request);
        plan(&[unet3d("b200")], &request).unwrap_err().to_string()
    };
    let message = refused(|request| request.organisation = "a/b;rm -rf".to_string());
    assert!(message.contains("--organisation `a/b;rm -rf`"), "{message}");
    let message = refused(|request| request.system = "x y".to_string());
    assert!(message.contains("--system `x y`"), "{message}");
    let message = refused(|request| request.data = "/my results/".to_string());
    assert!(message.contains("--data-dir") && message.contains("3.4.1"), "{message}");
    let message = refused(|request| request.checkpoints = "/my results".to_string());
    assert!(message.contains("4.4.1"), "{message}");
}

#[test]
fn without_rates_there_is_no_estimate_of_the_whole() {
    let mut request = request(Edition::V3);
    request.write_bytes_per_second = None;
    let campaign = plan(&[unet3d("b200")], &request).unwrap();
    assert_eq!(campaign.estimated_seconds, None);
    assert!(campaign.results[0].estimated_run_seconds.is_some());
    assert!(campaign.estimate.contains("--write-rate"), "{}", campaign.estimate);
}

#[test]
fn workloads_of_another_edition_are_refused() {
    let problems = plan(&[unet3d("a100")], &request(Edition::V3)).unwrap_err();
    let message = problems.to_string();
    assert!(message.contains("unet3d on a100 is not a closed workload of v3.0"), "{message}");
    assert!(problems.remedy().contains("unet3d on b200"), "{message}");
}

#[test]
fn objects_have_the_commands_of_the_object_api_and_v2_has_none() {
    let model = Planned::Checkpointing(Box::new(builtin::load("llama3-8b").unwrap()));
    let both = [unet3d("b200"), model];
    let mut asked = request(Edition::V3);
    (asked.data, asked.checkpoints) = ("s3://bucket/set".into(), "s3://other/ckpt/".into());
    let steps = plan(&both, &asked).unwrap().steps;
    let all: Vec<&str> = steps.iter().map(|step| &*step.command).collect();
    let all = all.join("\n");
    for expected in [
        "BUCKET=bucket STORAGE_LIBRARY=s3dlio mlpstorage closed training unet3d datagen object",
        "do BUCKET=bucket STORAGE_LIBRARY=s3dlio mlpstorage closed training unet3d run object",
        "--data-dir set ",
        "BUCKET=other STORAGE_LIBRARY=s3dlio mlpstorage closed checkpointing llama3-8b run object",
        "--checkpoint-folder ckpt ",
    ] {
        assert!(all.contains(expected), "{expected}: {all}");
    }
    assert!(!all.contains("s3://") && !all.contains(" file "), "{all}");
    assert!(steps.iter().any(|step| step.what.contains("AWS_ENDPOINT_URL")));
    asked.checkpoints = "s3://bucket".into();
    let refused = plan(&both, &asked).unwrap_err();
    assert!(refused[0].fact.contains("needs a prefix"), "{}", refused[0].fact);
    let mut old = request(Edition::V2);
    old.data = "s3://bucket/set".into();
    let refused = plan(&[unet3d("h100")], &old).unwrap_err();
    assert!(refused[0].fact.contains("v2.0 has files alone"), "{}", refused[0].fact);
}
