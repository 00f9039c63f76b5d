//! `cargo test --release terminal::tests::speed -- --ignored --nocapture`

use std::time::Instant;

use super::*;

fn lines(line: impl Fn(u32) -> String) -> Vec<u8> {
    (0..200_000).flat_map(|i| line(i).into_bytes()).collect()
}

#[test]
#[ignore = "it measures, and proves nothing"]
fn megabytes_in_a_second() {
    let cases = [
        (
            "plain",
            lines(|i| format!("{i:08} GET /api/v1/things/{i} 200 OK in 12 ms\r\n")),
        ),
        (
            "coloured",
            lines(|i| format!("\x1b[32m{i:08}\x1b[m GET \x1b[1m/things/{i}\x1b[m OK\r\n")),
        ),
        (
            "UTF-8",
            lines(|i| format!("{i:08} → größer § 日本語 ok\r\n")),
        ),
        ("short", lines(|_| "y\r\ny\r\ny\r\n".into())),
        ("bar", lines(|i| format!("\rprogress {i} of many things"))),
        ("endless", lines(|i| format!("{i} "))),
    ];
    let pattern = Pattern::literal("listening on", false);
    for (name, bytes) in cases {
        let mut terminal = Terminal::new(200, 50);
        let (mut reported, mut found) = (0, 0);
        let start = Instant::now();
        for (stamp, chunk) in (1..).zip(bytes.chunks(16 * 1024)) {
            terminal.write(chunk, stamp, &mut |line| {
                reported += 1;
                found += usize::from(pattern.find(line, 0).is_some());
            });
        }
        let speed = bytes.len() as f64 / 1e6 / start.elapsed().as_secs_f64();
        eprintln!("{name:9} {speed:6.1} MB/s, {reported} lines reported, {found} found");
    }
}
