//! Remora's API: the custom resources, their conditions, names and labels.
