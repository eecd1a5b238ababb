//! Wiring of the control plane.
