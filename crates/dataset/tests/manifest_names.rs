//! Which paths have the names of a dataset's files, whoever made them.

use stormlp_dataset::manifest::{MADE_BY, ManifestHead};

#[test]
fn only_the_names_of_a_datasets_own_files_are_its_names() {
    let head = ManifestHead {
        format_version: ManifestHead::version(),
        made_by: MADE_BY.to_string(),
        workload: "unet3d".to_string(),
        profile: "2.0".to_string(),
        format: "tfrecord".to_string(),
        train_files: 12,
        valid_files: 2,
        samples_per_file: 1,
        content: "random".to_string(),
        seed: 0,
        recipe: String::new(),
        starter: false,
    };
    for name in [
        "train/img_00_of_12.tfrecord",
        "train/3/my_own_img_11_of_12.tfrecord",
        "valid/img_1_of_2.tfrecord",
        "index/train/img_05_of_12.tfrecord.idx",
    ] {
        assert!(head.names(name), "{name}");
    }
    for name in [
        "train/img_12_of_12.tfrecord",
        "train/img_5_of_12.tfrecord",
        "train/img_+5_of_12.tfrecord",
        "train/img_05_of_13.tfrecord",
        "train/img_05_of_12.tfrecords",
        "train/img_05_of_12.npz",
        "train/_05_of_12.tfrecord",
        "valid/img_01_of_12.tfrecord",
        "other/img_05_of_12.tfrecord",
        "img_05_of_12.tfrecord",
        "train/notes.txt",
        "train",
        "",
    ] {
        assert!(!head.names(name), "{name}");
    }
}
