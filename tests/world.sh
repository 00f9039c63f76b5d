# shellcheck shell=bash
# A private environment for a script that runs tmux and the program: its own tmux
# server, folders and locale, all removed at the end. To be sourced.

# make_world: sets `world`, a temporary directory, and exports variables that confine
# programs to it. Unsets the caller's tmux, task session and desktop.
make_world() {
    local variable
    # Sockets are in this directory, and their paths are limited to about 100 bytes:
    # so it is in /tmp, whatever TMPDIR is.
    world=$(mktemp -d /tmp/tt.XXXXXX)
    mkdir -m 700 "$world/tmux" "$world/run" "$world/state" "$world/config" "$world/data" "$world/cache" "$world/tmp"
    for variable in $(compgen -e); do
        case $variable in
            TMUX | TMUX_PANE | TMUX_TASK_* | PI_* | XDG_* | DBUS_SESSION_BUS_ADDRESS | DISPLAY | WAYLAND_DISPLAY | LC_* | LANGUAGE)
                unset "$variable"
                ;;
        esac
    done
    export TMUX_TMPDIR=$world/tmux TMPDIR=$world/tmp
    export XDG_RUNTIME_DIR=$world/run XDG_STATE_HOME=$world/state XDG_CONFIG_HOME=$world/config
    export XDG_DATA_HOME=$world/data XDG_CACHE_HOME=$world/cache
    export LANG=C.UTF-8 LC_ALL=C.UTF-8
}

# end_world: ends the processes that still run in the world and removes it.
end_world() {
    local socket process name
    # A failed script may have left its tmux server; each has its socket in here.
    while IFS= read -r socket; do
        tmux -S "$socket" kill-server >/dev/null 2>&1 || true
    done < <(find "$world" -type s -path '*/tmux-[0-9]*/*' 2>/dev/null)
    # Programs that have left their process group: those of this script have inherited
    # the path of this directory.
    for process in /proc/[0-9]*; do
        name=''
        { IFS= read -r name <"$process/comm"; } 2>/dev/null || continue
        case $name in
            tmux* | dunst | Xvfb | dbus-daemon) ;;
            *) continue ;;
        esac
        if { tr '\0' '\n' <"$process/environ" | grep -q -F -x "TMUX_TMPDIR=$world/tmux"; } 2>/dev/null; then
            kill -KILL "${process#/proc/}" 2>/dev/null || true
        fi
    done
    # A process that is ending may still write a file.
    rm -rf "$world" 2>/dev/null || { sleep 0.2 && rm -rf "$world"; }
}
