//! What a terminal and MLPerf's tools get to see.
