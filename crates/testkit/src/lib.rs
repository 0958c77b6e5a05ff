//! Toy parameters, seeded fixtures and precision reports for tests.
