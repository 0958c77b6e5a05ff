//! The four server-side steps of HELBA, generic over the slot algebra.
