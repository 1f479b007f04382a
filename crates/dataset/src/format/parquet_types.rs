//! The columns of a parquet dataset.

/// The type of a column's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ElementType {
    Uint8,
    Int8,
    Int16,
    Int32,
    Int64,
    Float16,
    Float32,
    Float64,
    Bool,
}

impl ElementType {
    /// Every type.
    pub const ALL: [Self; 9] = [
        Self::Uint8,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
        Self::Bool,
    ];

    /// Bytes of one element in memory.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Uint8 | Self::Int8 | Self::Bool => 1,
            Self::Int16 | Self::Float16 => 2,
            Self::Int32 | Self::Float32 => 4,
            Self::Int64 | Self::Float64 => 8,
        }
    }
}

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
