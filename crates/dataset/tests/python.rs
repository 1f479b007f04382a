//! Python readers read the files of stormlp: numpy, pyarrow and TensorFlow, where they are
//! installed. `STORMLP_PYTHON` names the interpreter; each test reports when it skips.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::path::Path;
use std::process::Command;

use stormlp_dataset::content::{Content, FileContent};
use stormlp_dataset::format::jpeg::Jpeg;
use stormlp_dataset::format::npy::Npy;
use stormlp_dataset::format::npz::Npz;
use stormlp_dataset::format::parquet::Parquet;
use stormlp_dataset::format::png::Png;
use stormlp_dataset::format::tfrecord::Tfrecord;
use stormlp_dataset::format::{ChunkSink, FileSpec, Format, SinkError};
use stormlp_dataset::section::{ElementType, ParquetColumn};
use stormlp_dataset::sizes::SampleShape;

struct VecSink {
    bytes: Vec<u8>,
    buffer: Vec<u8>,
}

impl ChunkSink for VecSink {
    fn buffer(&mut self) -> Result<&mut [u8], SinkError> {
        Ok(&mut self.buffer)
    }

    fn commit(&mut self, bytes: usize) -> Result<(), SinkError> {
        self.bytes.extend_from_slice(&self.buffer[..bytes]);
        Ok(())
    }
}

fn file(samples: u64, dims: &[u64]) -> FileSpec {
    FileSpec {
        samples,
        shape: SampleShape::of_bytes(dims),
        nominal: SampleShape::of_bytes(&[338, 338]),
        content: FileContent { kind: Content::Random, seed: 42, file: 0 },
    }
}

fn write(format: &dyn Format, file: &FileSpec, path: &Path) {
    let mut sink = VecSink { bytes: Vec::new(), buffer: vec![0; 1 << 20] };
    let finish = format.encode(file, &mut sink).unwrap();
    for patch in finish.patches {
        sink.bytes[patch.offset..patch.offset + patch.bytes.len()].copy_from_slice(&patch.bytes);
    }
    std::fs::write(path, sink.bytes).unwrap();
}

/// Runs `script` with the file's path as its argument; `false` when `module` is not there.
fn python(module: &str, script: &str, path: &Path) -> bool {
    let python = std::env::var("STORMLP_PYTHON").unwrap_or_else(|_| "python3".to_string());
    let present = Command::new(&python)
        .args(["-c", &format!("import {module}")])
        .output()
        .is_ok_and(|output| output.status.success());
    if !present {
        let why = format!("`{python}` has no {module}");
        stormlp_fixtures::skipped(why, "set STORMLP_PYTHON to a Python that has it");
        return false;
    }
    let output = Command::new(&python)
        .args(["-c", script])
        .arg(path)
        .env("TF_CPP_MIN_LOG_LEVEL", "3")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{module} does not read it: {errors}");
    true
}

#[test]
fn numpy_reads_npz_and_checks_its_crc() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    write(&Npz, &file(3, &[700, 900]), &path);
    let script = "
import sys, zipfile, numpy as np
with np.load(sys.argv[1]) as data:
    x, y = data['x'], data['y']
assert x.shape == (700, 900, 3) and x.dtype == np.uint8, (x.shape, x.dtype)
assert y.shape == (3,) and y.dtype == np.int64 and not y.any()
assert 127 < x.mean() < 128, x.mean()
assert zipfile.ZipFile(sys.argv[1]).testzip() is None
np.savez(sys.argv[1] + '.again.npz', x=x, y=[0, 0, 0])
assert open(sys.argv[1], 'rb').read() == open(sys.argv[1] + '.again.npz', 'rb').read()
";
    python("numpy", script, &path);
}

#[test]
fn numpy_reads_npy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    write(&Npy, &file(2, &[70, 90]), &path);
    let script = "
import sys, numpy as np
x = np.load(sys.argv[1])
assert x.shape == (70, 90, 2) and x.dtype == np.uint8, (x.shape, x.dtype)
np.save(sys.argv[1] + '.again.npy', x)
assert open(sys.argv[1], 'rb').read() == open(sys.argv[1] + '.again.npy', 'rb').read()
";
    python("numpy", script, &path);
}

#[test]
fn pillow_opens_jpeg_and_png_as_dlios_reader_does() {
    let folder = tempfile::tempdir().unwrap();
    let script = "
import sys, os, numpy as np
from PIL import Image
x = np.asarray(Image.open(sys.argv[1]))
assert x.dtype == np.uint8 and x.size > 0, (x.shape, x.dtype)
assert Image.open(sys.argv[1]).convert('RGB').size == (x.shape[1], x.shape[0])
size = os.path.getsize(sys.argv[1])
if sys.argv[1].endswith('png') and size > 1000:
    assert x.size > 0.9 * size - 1000, (x.size, size)
    assert 100 < x.mean() < 155, x.mean()
";
    for bytes in [1, 200, 241, 4096, 65_700, 322_624, 3_000_001] {
        let file = file(1, &[bytes]);
        let formats: [(&str, &dyn Format); 2] = [("jpeg", &Jpeg), ("png", &Png)];
        for (name, format) in formats {
            let path = folder.path().join(format!("a{bytes}.{name}"));
            write(format, &file, &path);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), format.file_bytes(&file).unwrap());
            python("PIL, numpy", script, &path);
        }
    }
}

#[test]
fn pyarrow_reads_parquet() {
    let column =
        |name: &str, dtype, size| ParquetColumn { name: name.to_string(), dtype, size, read: true };
    let columns = vec![
        column("image", ElementType::Float32, 5000),
        column("half", ElementType::Float16, 7),
        column("flag", ElementType::Bool, 1),
        column("small", ElementType::Int8, 1),
        column("byte", ElementType::Uint8, 3),
        column("wide", ElementType::Float64, 1),
        column("long", ElementType::Int64, 1),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&Parquet::new(columns, 64, 1).unwrap(), &file(150, &[1]), &path);
    let script = "
import sys, pyarrow as pa, pyarrow.parquet as pq
file = pq.ParquetFile(sys.argv[1])
assert file.metadata.num_row_groups == 3 and file.metadata.num_rows == 150
table = file.read()
assert table.num_rows == 150
types = [str(t) for t in table.schema.types]
assert types == ['list<element: float not null>', 'list<element: halffloat not null>', 'bool',
    'int8', 'list<element: uint8 not null>', 'double', 'int64'], types
assert all(len(v) == 5000 for v in table['image'])
assert all(len(v) == 3 for v in table['byte'])
assert len(set(table['long'].to_pylist())) == 150
";
    python("pyarrow.parquet", script, &path);
}

#[test]
fn tensorflow_reads_tfrecord() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tfrecord");
    write(&Tfrecord, &file(5, &[338, 339]), &path);
    let script = "
import sys, tensorflow as tf
features = {'image': tf.io.FixedLenFeature([], tf.string), 'size': tf.io.FixedLenFeature([], tf.int64)}
count = 0
for record in tf.data.TFRecordDataset(sys.argv[1]):
    example = tf.io.parse_single_example(record, features)
    assert len(example['image'].numpy()) == 338 * 339
    assert example['size'].numpy() == 338
    again = tf.train.Example.FromString(record.numpy())
    assert len(again.SerializeToString()) == len(record.numpy())
    count += 1
assert count == 5, count
";
    python("tensorflow", script, &path);
}
