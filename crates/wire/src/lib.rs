//! Messages between user and server: framing, limits, conformance checks.
