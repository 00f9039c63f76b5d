//! What is ended is checked again in the line that ends it.

use super::*;
use crate::model::SessionLife;

/// Waits until the only pane of the session `work` has ended.
async fn until_dead(private: &Private) {
    until(async || {
        let dead = private.asks(&["display-message", "-p", "-t", "=work:", "#{pane_dead}"]);
        if dead == "1" { Ok(()) } else { Err(dead) }
    })
    .await;
}

#[tokio::test]
async fn what_came_to_life_after_the_look_is_not_ended() {
    let private = Private::started().await;
    private.asks(&["set-option", "-g", "remain-on-exit", "on"]);
    private.asks(&["new-session", "-d", "-s", "work", "--", "true"]);
    until_dead(&private).await;
    let look = private.look("work", &mut LookMemory::default()).await;
    let (window, life) = (only(&look), &look.session.life);
    let pane = window.pane.as_ref().unwrap().pane;
    let dead = [(window.window, pane)];
    private.asks(&["respawn-pane", "-t", "=work:", "sleep 1000"]);

    prune_windows(&mut private.connection(), &dead)
        .await
        .unwrap();
    let ends = async |life: &SessionLife, unless| {
        let mut connection = private.connection();
        end_idle_session(&mut connection, life, unless)
            .await
            .unwrap()
    };
    assert!(!ends(life, Unless::Active).await);
    let is_dead = ["display-message", "-p", "-t", "=work:", "#{pane_dead}"];
    assert_eq!(private.asks(&is_dead), "0");

    // A session that is idle, but none of ours, or another one under the same id.
    private.asks(&["respawn-pane", "-k", "-t", "=work:", "true"]);
    until_dead(&private).await;
    assert!(!ends(life, Unless::ActiveOrSeen).await);
    private.asks(&["set-option", "-t", "=work:", "@tmux_task_root", "/project"]);
    let other = SessionLife {
        created: life.created - 1,
        ..life.clone()
    };
    assert!(!ends(&other, Unless::ActiveOrSeen).await);
    assert!(ends(life, Unless::ActiveOrSeen).await);
    assert!(
        !private
            .tmux(&["has-session", "-t", "=work"])
            .status
            .success()
    );
}

#[tokio::test]
async fn only_dead_windows_without_a_pane_of_a_users_are_removed() {
    let private = Private::started().await;
    private.asks(&["set-option", "-g", "remain-on-exit", "on"]);
    private.asks(&[
        "new-session",
        "-d",
        "-s",
        "work",
        "-n",
        "task",
        "--",
        "true",
    ]);
    until_dead(&private).await;
    let look = private.look("work", &mut LookMemory::default()).await;
    let window = only(&look);
    let dead = [(window.window, window.pane.as_ref().unwrap().pane)];
    private.asks(&["split-window", "-d", "-t", "=work:", "sleep 1000"]);
    prune_windows(&mut private.connection(), &dead)
        .await
        .unwrap();
    let panes = ["list-panes", "-t", "=work:", "-F", "#{pane_dead}"];
    assert_eq!(private.asks(&panes), "1\n0");

    private.asks(&["kill-pane", "-t", "=work:.1"]);
    prune_windows(&mut private.connection(), &dead)
        .await
        .unwrap();
    assert!(
        !private
            .tmux(&["has-session", "-t", "=work"])
            .status
            .success()
    );
}
