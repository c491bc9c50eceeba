//! Every kind of summary, however it was made, in whatever uses it.

use super::world::{World, write_index};

#[test]
fn a_map_of_an_index_answers_for_what_the_index_holds() {
    let world = World::new();
    let held: Vec<String> = (0..50)
        .map(|n| format!("http://a{}.example.org/p/{n}", n % 7))
        .collect();
    write_index(&world, "all.cdxj", &held);
    world.ok("--quiet map build all.cdxj -o all.ukvs");
    assert!(
        world
            .lookup("all.ukvs", &held)
            .iter()
            .all(|answer| answer == "present")
    );
    let others = vec!["http://b.example.net/".to_owned()];
    assert_eq!(world.lookup("all.ukvs", &others), ["absent"]);
}
