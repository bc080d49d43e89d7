//! `conclave compare`.

use serde_json::Value;

use super::{Desk, line};

/// Every measured point agrees with its formula, or lies within its bounds.
#[track_caller]
fn agrees(what: &str, most: u64, algorithms: usize) {
    let report = line(&format!("compare {what} -n 2..{most} --json")).ends(0).json();
    assert_eq!(report["agrees"], true);
    assert_eq!(report["skipped"], serde_json::json!([]), "every size of every algorithm is measured");
    assert_eq!(report["algorithms"].as_array().map(Vec::len), Some(algorithms));
    let points = report["points"].as_array().expect("points");
    assert_eq!(points.len() as u64, algorithms as u64 * 2 * (most - 1));
    for point in points {
        assert_eq!(point["agrees"], true, "{point}");
        assert_eq!(point["broken"], 0, "{point}");
        let number = |value: &Value| value.as_f64().expect("a number");
        let (mean, low) = (number(&point["messages"]["mean"]), number(&point["formula"]["low"]));
        assert!(mean >= low - 1e-6, "{point}");
        if let Some(high) = point["formula"]["high"].as_f64() {
            assert!(mean <= high + 1e-6, "{point}");
        }
        if point["formula"]["exact"] == true {
            assert!((mean - low).abs() < 1e-5, "{point}");
        }
    }
}

#[test]
fn locks_agree_with_their_formulas_from_2_to_32_processes() {
    agrees("mutex", 32, conclave_algorithms::mutex::all().len());
}

#[test]
fn elections_agree_with_their_formulas_from_2_to_64_processes_whoever_starts() {
    agrees("election", 64, conclave_algorithms::election::all().len());
}

#[test]
fn the_tables_of_the_book() {
    let page = line("compare lamport ricart-agrawala -n 9 --entries 1").ends(0).out;
    for part in [
        "lamport             24",
        "ricart-agrawala     16",
        "3(n-1) per entry",
        "2(n-1) per entry",
        "fifo",
        "CACM",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let page = line("compare bully chang-roberts -n 5").ends(0).out;
    for part in
        ["best and worst over all starters", "synchronous", "10–14", "what they promise", "E1        nobody"]
    {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let page = line("compare mutex -n 3").ends(0).out;
    assert!(page.contains("ME5-TS    order of stamps: lamport, ricart-agrawala"), "{page}");
}

#[test]
fn numbers_and_plots_for_a_paper() {
    let desk = Desk::new();
    let (csv, svg) = (desk.path("n.csv"), desk.path("n.svg"));
    let files = format!("--csv {} --svg {} --theme light", csv.display(), svg.display());
    line(&format!("compare central token-ring -n 2..4 --delay 1..10 --seeds 5 {files}")).ends(0);
    let text = desk.read("n.csv");
    assert_eq!(text.lines().count(), 1 + 2 * 2 * 3);
    assert!(
        text.starts_with("algorithm,scenario,n,runs,messages_mean,messages_min,messages_max,messages_sd,"),
        "{text}"
    );
    let columns = text.lines().map(|line| line.split(',').count()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(columns.len(), 1, "every row has as many columns:\n{text}");
    assert_eq!(desk.files(), ["n-1.svg", "n-2.svg", "n.csv"]);
    let plot = desk.read("n-2.svg");
    assert!(plot.contains("saturated load") && plot.contains(">token-ring</text>"));
    line(&format!("compare chang-roberts -n 4 --csv {} --each", csv.display())).ends(0);
    let each = desk.read("n.csv");
    assert!(each.contains("chang-roberts,each-starts,4,1,3,"), "{each}");
    assert_eq!(each.lines().count(), 1 + 4 + 1);
}

#[test]
fn only_what_can_be_compared() {
    line("compare bully lamport").refused("nothing can be compared");
    line("compare mutx").refused("did you mean 'mutex'?");
    line("compare lamprt").refused("did you mean 'lamport'?");
    line("compare mutex -n 2..9999").refused("at most 512");
    line("compare mutex -n 5..2").refused("there is no number in 5..2");
    line("compare mutex --set nothing=1").refused("none of these algorithms has a setting 'nothing'");
    line("compare lamport --csv /nowhere/x.csv").refused("cannot write");
    line("compare bully --load light").refused("--load means nothing to elections");
    line("compare election --entries 3").refused("--entries means nothing to elections");
    line("compare maekawa -n 3 --set quorum=x").refused("nothing can be measured: maekawa with 3 processes");
    line("compare lamport -n 3 --theme dark").refused("--svg is missing");
}
