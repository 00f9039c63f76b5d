//! Restarts of tasks that have failed.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use super::*;
use crate::model::RestartPolicy;
use crate::model::test_notation::task;

/// A tmux whose lists of clients are answered only when the file `attached` is there. It makes the
/// file `listed` before it waits.
fn slow_tmux(folder: &Path) -> PathBuf {
    let program = folder.join("slow-tmux");
    let script = format!(
        "#!/bin/sh\n\
         case \"$*\" in *list-clients*)\n\
             listed=$(tmux \"$@\"); : >'{dir}/listed'\n\
             until [ -e '{dir}/attached' ]; do sleep 0.01; done\n\
             printf '%s\\n' \"$listed\"; exit\n\
         esac\n\
         exec tmux \"$@\"\n",
        dir = folder.display()
    );
    std::fs::write(&program, script).unwrap();
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&program, mode).unwrap();
    program
}

#[tokio::test]
async fn a_restart_starts_nothing_if_a_client_attaches_after_the_clients_were_listed() {
    let private = Private::started().await;
    let dir = private.dir.path();
    let (kept, runtime) = (dir.join("kept"), dir.join("run"));
    let mut launch = private.task("S", "api", &["exit 1"]);
    launch.restarts = Some(LaunchRestarts {
        policy: RestartPolicy {
            limit: 5,
            backoff: Duration::ZERO,
        },
        kept: kept.clone(),
    });
    let launched = private.launch(&launch).await.unwrap();
    let of_pane = |format: &str| private.asks(&["display-message", "-p", "-t", "=S:", format]);
    until(async || match of_pane("#{pane_dead}").as_str() {
        "1" => Ok(()),
        other => Err(other.to_owned()),
    })
    .await;
    let record = read_record(&mut private.connection(), launched.window).await;
    let (_, restarts) = record.unwrap().restart.unwrap();
    let mut failed = task("@0#1 api dead 1");
    failed.window = launched.window;
    failed.pane = Some(of_pane("#{pane_id}").parse().unwrap());
    failed.restarts = Some(restarts);

    let choice = ServerChoice {
        socket_path: Some(dir.join("s")),
        program: Some(slow_tmux(dir)),
        ..ServerChoice::default()
    };
    let slow = Server::locate(&choice, &|_| None).unwrap();
    let program = private.program().display().to_string();
    let restarted = async || {
        let order = TaskRestart {
            last_run: 0,
            task: &failed,
            number: 1,
            session: "S",
            runtime: &runtime,
            kept: &kept,
            program: &program,
            now: 1_700_000_000_456,
        };
        restart(&mut Connection::OneShot(&slow), order)
            .await
            .unwrap()
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
    let (result, mut client) = tokio::join!(restarted(), attached);
    assert_eq!(result, RestartResult::Superseded);
    assert_eq!(of_pane("#{pane_dead} #{@tmux_task_run}"), "1 1");
    // Its environment is still there for the next attempt.
    assert_eq!(restarted().await, RestartResult::Started);
    assert_eq!(of_pane("#{@tmux_task_run}"), "2");
    client.kill().unwrap();
    client.wait().unwrap();
}
