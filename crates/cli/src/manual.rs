//! Manual pages, made from what the help says.

use std::path::Path;

use crate::failure::{Failure, Verdict};
use crate::{args, output};

/// Writes all pages into a directory, or prints the first.
pub fn write(dir: Option<&Path>) -> Result<Verdict, Failure> {
    let mut command = args::command();
    command.build();
    let Some(dir) = dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).map_err(Failure::new)?;
        output::show(&String::from_utf8_lossy(&page))?;
        return Ok(Verdict::Held);
    };
    let failed = |error: std::io::Error| Failure::file("write", dir, &error);
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(command, dir).map_err(failed)?;
    output::show(&format!("the manual pages are in {}\n", dir.display()))?;
    Ok(Verdict::Held)
}
