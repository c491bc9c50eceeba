//! A takedown list through everything that publishes or answers.
