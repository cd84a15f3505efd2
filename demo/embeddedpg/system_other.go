//go:build unix && !linux

package embeddedpg

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// attributes starts the child in a session of its own, so that Ctrl-C in a
// terminal reaches us alone. There is no death signal here: awaitPredecessor
// stops a server that has outlived its parent.
func (a account) attributes(syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	switch a.kind {
	case dropped:
		uid, gid := uint32(a.uid), uint32(a.gid) //nolint:gosec // parsed as 32 bits
		attr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	case namespaced:
		// No user namespaces here. Asking for root's own credentials again would
		// run, and PostgreSQL would refuse root: make the attempt fail instead.
		attr.Chroot = "/nonexistent"
	}
	return attr
}

func mayDropRoot() bool { return true }

// attached returns the process of the pid file if it is a server of this
// cluster, by its command line. Children that outlive their postmaster are left
// to PostgreSQL, which refuses to start beside them.
func attached(ctx context.Context, cluster, pidFile string) []int {
	pid := postmaster(pidFile)
	if pid == 0 {
		return nil
	}
	out, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil || !strings.Contains(string(out), "postgres") || !strings.Contains(string(out), cluster) {
		return nil
	}
	return []int{pid}
}

func memoryHasRoom() bool { return false }
