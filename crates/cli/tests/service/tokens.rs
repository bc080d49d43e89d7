//! Tokens go on growing where a node begins again.

use std::fs;

use crate::nodes::Service;

fn token(service: &Service) -> u64 {
    let ran = service.shell("lock a --try", "echo $CONCLAVE_TOKEN").ends(0);
    ran.out.trim().parse().expect("a token is a number")
}

#[test]
fn an_empty_directory_and_an_old_one_give_no_token_twice() {
    let mut service = Service::one();
    let (data, copy) = (service.data(1), service.path("copy"));
    let mut tokens = vec![token(&service)];
    service.kill(1);
    fs::create_dir(&copy).expect("there is room");
    for file in fs::read_dir(&data).expect("it has data") {
        let file = file.expect("it can be read");
        fs::copy(file.path(), copy.join(file.file_name())).expect("there is room");
    }
    for restored in [&data, &copy] {
        service.run(1);
        service.is_served();
        tokens.push(token(&service));
        service.kill(1);
        fs::remove_dir_all(&data).expect("it has data");
        if restored == &copy {
            fs::rename(&copy, &data).expect("there is no other");
        }
    }
    // The first time with what it had, then with nothing, at last with the copy.
    service.run(1);
    service.is_served();
    tokens.push(token(&service));
    assert!(tokens.is_sorted_by(|one, next| one < next), "tokens went back: {tokens:?}");
    let shown = service.conclave("ls a --all --json").ends(0).json().remove(0)["newest_token"].as_u64();
    assert_eq!(shown, tokens.last().copied(), "a number that JSON carries exactly");
    assert!(tokens.iter().all(|token| *token < 1 << 53), "{tokens:?}");
}
