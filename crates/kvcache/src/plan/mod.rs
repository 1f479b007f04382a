//! The plan of a KV-cache workload: models, objects, users, requests.
//!
//! ```
//! use stormlp_kvcache::plan::{Content, Model, Noise};
//! let model = Model::named("llama3.1-8b").expect("a model that is built in");
//! assert_eq!(model.bytes_per_token(), 131_072);
//! let object = Content::new(&model, "precond_0", 2048, 42);
//! let mut somewhere = [0; 64];
//! object.fill(&Noise::new(42), 1 << 27, &mut somewhere);
//! ```

mod cache;
mod checks;
mod chunks;
mod content;
mod facts;
mod find_max;
mod kvcache_plan;
mod load;
mod marker;
mod model;
mod noise;
mod options;
mod pcg64;
mod prompts;
mod request;
mod resolve;
mod serving;
mod serving_request;
mod size;
mod trace;
mod transport;
mod users;
mod work;
mod workload;

pub use cache::{Cache, Claim, Step, Tier, Victim};
pub use chunks::{ChunkId, Chunks, WriteDecision};
pub use content::{Content, HEADER_BYTES, file_bytes};
pub use facts::{KvcacheFacts, TraceFacts};
pub use find_max::{
    FIRST_SERVERS, FindServers, MOST_DROPPED_PERCENT, TriedServers, expected_seconds, is_of_memory,
};
pub use kvcache_plan::{KvcachePlan, Pass, TracePlan};
pub use load::{Load, Queue, Request};
pub use marker::{KNOWN_BY_BYTES, MARKER_NAME, Marker, file_name, names_object_of_a_run};
pub use model::{Attention, CHECKPOINT_MODELS, Model};
pub use noise::{Element, NOISE_BYTES, NOISE_ELEMENTS, Noise};
pub use options::{MOST_WORKERS, MlperfOption, OPTIONS, SECONDS, SEED};
pub use prompts::{Prompt, Prompts};
pub use request::{KvcacheRequest, RunRequest, WorkloadName};
pub use resolve::resolve;
pub use serving::{BLOCK_BYTES, Layout, ServingPlan, WRITE_QUEUE};
pub use serving_request::{ChunkRequest, ChunkTune, RunTune, ServingRequest, ServingTune};
pub use size::{Fits, ObjectSize, Size, SizeRequest, size};
pub use trace::{BLOCK_TOKENS, MOST_LINE_BYTES, TraceEntry, TraceError, TraceFormat, TraceReader};
pub use users::{Class, User, draw};
pub use work::{Next, Work};
pub use workload::{KvcacheWorkload, MlperfRequest, MlperfTune, ReplayRequest, Speed};
