//go:build unix && !linux

package embeddedpg

import "syscall"

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
