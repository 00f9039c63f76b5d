//! What is ended is checked again in the line that ends it.

use super::*;
use crate::model::SessionLife;

#[tokio::test]
async fn what_came_to_life_after_the_look_is_not_ended() {
    let private = Private::started().await;
    private.run("set-option -g remain-on-exit on");
    private.run("new-session -d -s work -n task -- true");
    private.until_dead("=work:").await;
    let look = private.look("work", &mut LookMemory::default()).await;
    let (window, life) = (only(&look), &look.session.life);
    let dead = [(window.window, window.pane.as_ref().unwrap().pane)];
    let prune = async || {
        let pruned = prune_windows(&mut private.connection(), &dead).await;
        pruned.unwrap();
    };
    let ends = async |life: &SessionLife, unless| {
        let ended = end_idle_session(&mut private.connection(), life, unless).await;
        ended.unwrap()
    };
    private.asks(&["respawn-pane", "-t", "=work:", "sleep 1000"]);
    prune().await;
    assert!(!ends(life, Unless::Active).await);
    assert_eq!(private.shows("=work:", "#{pane_dead}"), "0");

    // A dead window with a pane of the user's.
    private.run("respawn-pane -k -t =work: true");
    private.until_dead("=work:").await;
    private.asks(&["split-window", "-d", "-t", "=work:", "sleep 1000"]);
    prune().await;
    assert_eq!(private.run("list-panes -t =work: -F #{pane_dead}"), "1\n0");
    private.run("kill-pane -t =work:.1");

    // A session that is idle, but none of ours, or another one under the same id.
    assert!(!ends(life, Unless::ActiveOrSeen).await);
    private.run("set-option -t =work: @tmux_task_root /project");
    let other = SessionLife {
        created: life.created - 1,
        ..life.clone()
    };
    assert!(!ends(&other, Unless::ActiveOrSeen).await);
    private.run("new-window -d -t =work: -- sleep 1000");
    prune().await;
    assert_eq!(private.run("list-panes -s -t =work: -F #{pane_dead}"), "0");

    private.run("respawn-pane -k -t =work: true");
    private.until_dead("=work:").await;
    assert!(ends(life, Unless::ActiveOrSeen).await);
    let session = private.tmux(&["has-session", "-t", "=work"]);
    assert!(!session.status.success());
}
