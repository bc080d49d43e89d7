//! Completion: a script for the shell, which asks this program at every Tab.

use std::process::ExitCode;

use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};

use crate::failure::Failure;
use crate::{Context, args, program};

/// The variable that tells the program to complete what was typed, instead of doing it.
const VARIABLE: &str = "CONCLAVE_COMPLETE";

/// Completes, if a script has asked for it.
pub fn run(context: &Context) -> Option<ExitCode> {
    let command = || {
        let command = args::command();
        #[cfg(feature = "laboratory")]
        let command = crate::laboratory::completion::known(command, &context.catalogue);
        command
    };
    #[cfg(not(feature = "laboratory"))]
    let _ = context;
    let directory = std::env::current_dir().ok();
    let completed = CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .try_complete(std::env::args_os(), directory.as_deref());
    match completed {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(error) => {
            let _ = error.print();
            Some(ExitCode::from(2))
        }
    }
}

/// The script for a shell.
pub fn script(shell: Shell) -> Result<String, Failure> {
    let name = program::name();
    if shell == Shell::Bash {
        return Ok(BASH
            .replace("NAME", &name.replace('-', "_"))
            .replace("PROGRAM", name)
            .replace("VARIABLE", VARIABLE));
    }
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string());
    let completer = completer.ok_or_else(|| Failure::new(format!("there is no completion for {shell}")))?;
    completer.write_registration(VARIABLE, name, name, name, &mut script).map_err(Failure::new)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Bash breaks words at `=` and `:`, which stand in the middle of our values: the words are read from the line, and what
/// stands before the last of these marks is taken off the answers again.
const BASH: &str = r#"_complete_NAME() {
    local IFS=$' \t\n' words answers answer
    local line="${COMP_LINE:0:COMP_POINT}"
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    local index=$((${#words[@]} - 1))
    local current="${words[index]}"
    local kept=""
    [[ "$current" == *[=:]* ]] && kept="${current%"${current##*[=:]}"}"
    answers="$(
        _CLAP_IFS=$'\n' \
        _CLAP_COMPLETE_INDEX="$index" \
        _CLAP_COMPLETE_COMP_TYPE="${COMP_TYPE}" \
        _CLAP_COMPLETE_SPACE=false \
        VARIABLE=bash \
        PROGRAM -- "${words[@]}" 2> /dev/null
    )" || return
    COMPREPLY=()
    while IFS= read -r answer; do
        [[ -n "$answer" ]] && COMPREPLY+=("${answer#"$kept"}")
    done <<< "$answers"
    [[ "${COMPREPLY[0]}" == *[=/:] ]] || compopt +o nospace 2> /dev/null
}
complete -o nospace -o bashdefault -F _complete_NAME PROGRAM
"#;
