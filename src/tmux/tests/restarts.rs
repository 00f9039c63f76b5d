//! Restarts of tasks that have failed.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use super::*;

/// A tmux whose lists of clients are answered only when the file `attached` is there. It makes the
/// file `listed` before it waits.
fn slow_tmux(folder: &Path) -> PathBuf {
    let program = folder.join("slow-tmux");
    let script = format!(
        "#!/bin/sh\n\
         line=$(cat)\n\
         answer=$(printf '%s\\n' \"$line\" | tmux \"$@\")\n\
         case $line in *list-clients*)\n\
             : >'{dir}/listed'\n\
             until [ -e '{dir}/attached' ]; do sleep 0.01; done\n\
         esac\n\
         printf '%s\\n' \"$answer\"\n",
        dir = folder.display()
    );
    std::fs::write(&program, script).unwrap();
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&program, mode).unwrap();
    program
}

#[tokio::test]
async fn a_launch_in_a_window_starts_over_if_a_client_attaches_after_the_clients_were_listed() {
    let private = Private::started().await;
    let dir = private.dir.path();
    let mut order = private.task("S", "api", &["exit 1"]);
    let launched = private.launch(&order).await.unwrap();
    private.until_dead("=S:").await;
    let recorded = read_spec(&mut private.connection(), launched.window).await;
    let (token, spec) = recorded.unwrap().unwrap();
    assert_eq!(spec, order.spec);

    let slow = server_at(&dir.join("s"), Some(slow_tmux(dir)));
    order.replaces = Replaces::Ended;
    let (order, _files) = private.prepare(&order).unwrap();
    let restarted = async |token: String| {
        let (mut connection, session) = (Connection::OneShot(&slow), launched.life.id);
        let slots = Slots::Window(launched.window, token);
        let done = launch(&mut connection, &slow, Some(session), &order, slots, &[]);
        done.await.unwrap()
    };
    let attached = async {
        until(async || {
            let is_listed = dir.join("listed").exists();
            is_listed.then_some(()).ok_or("no list of clients".into())
        })
        .await;
        let mut client = std::process::Command::new("tmux")
            .arg("-S")
            .arg(private.server.socket())
            .args(["-C", "attach-session", "-t", "=S"])
            .env_remove("TMUX")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The answer to the attaching: it is attached.
        let output = client.stdout.as_mut().unwrap();
        output.read_exact(&mut [0]).unwrap();
        std::fs::write(dir.join("attached"), "").unwrap();
        client
    };
    let (result, mut client) = tokio::join!(restarted(token.clone()), attached);
    assert!(matches!(result, LaunchAnswer::Started(run) if run.run == 2));
    assert_eq!(private.shows("=S:", "#{@tmux_task_run}"), "2");
    // Another launch has used the window since.
    assert!(matches!(restarted(token).await, LaunchAnswer::NoSession));
    client.kill().unwrap();
    client.wait().unwrap();
}
