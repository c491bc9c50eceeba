//! Indexes that are unsorted, cut or changed while they are read.
