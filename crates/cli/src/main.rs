//! The `waypost` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    waypost_cli::main()
}
