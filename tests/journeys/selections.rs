//! Summaries of a part of the captures, evaluated and routed by.
