//! What a run of the KV-cache workload does: models, objects, users, requests.
//!
//! ```
//! use stormlp_kvcache::plan::{Content, Model};
//! let model = Model::named("llama3.1-8b").expect("a model that is built in");
//! assert_eq!(model.bytes_per_token(), 131_072);
//! let object = Content::new(&model, "precond_0", 2048, 42);
//! let mut somewhere = [0; 64];
//! object.fill(1 << 27, &mut somewhere);
//! ```

mod content;
mod load;
mod model;
mod options;
mod pcg64;
mod size;
mod users;

pub use content::{Content, HEADER_BYTES, file_bytes};
pub use load::{Load, Queue, Request, Without};
pub use model::{Attention, Model};
pub use options::{MlperfOption, OPTIONS, Offered, SECONDS, SEED};
pub use size::{Fits, ObjectSize, READ_PER_WRITTEN, Size, SizeRequest, Written, size};
pub use users::{Class, User, draw};
