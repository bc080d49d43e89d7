//! Completion in a real shell, and manual pages.

use std::path::Path;
use std::process::Command;

use super::{Desk, conclave, line};

/// What bash offers when Tab is pressed at the end of a line.
fn offered(typed: &str) -> Vec<String> {
    let desk = Desk::new();
    let script = desk.put("completion.bash", &line("completions bash").ends(0).out);
    let binary = Path::new(env!("CARGO_BIN_EXE_conclave"));
    let directory = binary.parent().expect("it is in a directory").display();
    // Bash itself breaks the words at blanks, = and :, and the function has to cope with that.
    let harness = format!(
        r#"
        PATH="{directory}:$PATH"
        source "{script}"
        function_of() {{ complete -p conclave | sed 's/.*-F \([^ ]*\) .*/\1/'; }}
        COMP_LINE='{typed}'
        COMP_POINT=${{#COMP_LINE}}
        COMP_TYPE=9
        COMP_WORDS=($(printf '%s' "$COMP_LINE" | sed 's/[=:]/ & /g'))
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        "$(function_of)" conclave "" ""
        printf '%s\n' "${{COMPREPLY[@]}}"
        "#
    );
    let output = Command::new("bash").args(["--norc", "-c", &harness]).output().expect("there is a bash");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it prints text");
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn commands_algorithms_and_options() {
    assert_eq!(offered("conclave che"), ["check"]);
    assert_eq!(offered("conclave sim bul"), ["bully"]);
    assert_eq!(offered("conclave step bul"), ["bully"]);
    assert_eq!(offered("conclave compare mut"), ["mutex"]);
    assert_eq!(offered("conclave compare mutex bul"), ["bully"]);
    assert_eq!(offered("conclave example lock-manager-s"), ["lock-manager-silent"]);
    assert_eq!(offered("conclave example --of elec"), ["election"]);
    assert_eq!(offered("conclave cluster start maek"), ["maekawa"]);
    assert_eq!(offered("conclave check lamport --verify"), ["--verify-reduction"]);
    assert_eq!(offered("conclave group join chat --order caus"), ["causal"]);
    assert_eq!(offered("conclave sim lamport --channels "), ["fifo", "any"]);
}

#[test]
fn mutants_of_the_algorithm_that_was_typed() {
    let offered = |typed| {
        let mut offered = offered(typed);
        offered.sort();
        offered
    };
    let about = conclave_algorithms::registry::find("bully").expect("bully is there");
    let mut mutants: Vec<_> = about.mutants.iter().map(|mutant| mutant.name.to_owned()).collect();
    mutants.sort();
    assert_eq!(offered("conclave check bully --mutant "), mutants);
    assert_eq!(offered("conclave sim ricart-agrawala --mutant no-t"), ["no-tie-break"]);
}

#[test]
fn settings_and_their_values() {
    let modes = offered("conclave sim bully --set mo");
    assert!(modes.contains(&"mode=hardened".to_owned()), "{modes:?}");
    // Bash has the key already: it wants what comes after it.
    assert_eq!(offered("conclave sim bully --set mode=h"), ["hardened"]);
}

#[test]
fn topics_of_explanations() {
    let offered = offered("conclave explain ME5");
    assert_eq!(offered, ["ME5-FCFS", "ME5-HB", "ME5-TS"]);
}

#[test]
fn every_shell_has_a_script_that_asks_the_program() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = line(&format!("completions {shell}")).ends(0).out;
        assert!(script.contains("conclave") && script.contains("CONCLAVE_COMPLETE"), "{shell}:\n{script}");
    }
}

#[test]
fn a_manual_page_for_every_command() {
    let desk = Desk::new();
    let dir = desk.path("man1");
    conclave(&["man".as_ref(), dir.as_os_str()]).ends(0);
    let pages: Vec<_> =
        std::fs::read_dir(&dir).expect("it is there").map(|page| page.unwrap().path()).collect();
    let named = |name: &str| pages.iter().any(|page| page.ends_with(name));
    for name in
        ["conclave.1", "conclave-serve.1", "conclave-sim.1", "conclave-cluster-start.1", "conclave-explain.1"]
    {
        assert!(named(name), "{name} among {pages:?}");
    }
    for page in &pages {
        let text = std::fs::read_to_string(page).expect("readable");
        for part in [".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"] {
            assert!(text.contains(part), "{part} in {}", page.display());
        }
        assert!(!text.contains('\x1b'), "colours in {}", page.display());
        renders(page);
    }
    assert!(line("man").ends(0).out.contains(".TH conclave 1"));
}

/// A tool that reads manual pages finds nothing wrong with it; where there is none, its form has been looked at.
fn renders(page: &Path) {
    let Ok(output) = Command::new("groff").args(["-man", "-Tascii", "-ww", "-z"]).arg(page).output() else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{}: {said}", page.display());
}
