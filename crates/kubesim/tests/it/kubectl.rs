//! The real kubectl.
