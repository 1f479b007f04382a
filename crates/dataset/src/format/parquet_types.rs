//! The columns of a parquet dataset.

pub use stormlp_model::training::workload::ElementType;

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub element: ElementType,
    /// Elements in one row; above 1 the column is a list.
    pub elements: u64,
}
