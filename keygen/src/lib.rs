//! The key authority's offline tool.
