//! Remora's operator: watches, applies and reports.
