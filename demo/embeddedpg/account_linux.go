package embeddedpg

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// attributes starts the child in a session of its own, so that Ctrl-C in a
// terminal reaches us alone and we decide when the server stops. onOurDeath is
// what the kernel sends to the child when we are gone.
func (a account) attributes(onOurDeath syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: onOurDeath}
	switch a.kind {
	case dropped:
		uid, gid := uint32(a.uid), uint32(a.gid) //nolint:gosec // parsed as 32 bits
		attr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	case namespaced:
		attr.Cloneflags = syscall.CLONE_NEWUSER
	}
	return attr
}

// Capabilities that dropping root takes, by their bit (capabilities(7)): to
// give the cluster away, to get at it and at its socket, to signal the server,
// and to change group and user.
var dropCapabilities = []uint{0 /* CHOWN */, 1 /* DAC_OVERRIDE */, 5 /* KILL */, 6 /* SETGID */, 7 /* SETUID */}

// mayDropRoot tells whether this root has those. In containers it may not.
func mayDropRoot() bool {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return true // no /proc: let the attempt decide
	}
	_, after, _ := strings.Cut(string(status), "CapEff:\t")
	digits, _, _ := strings.Cut(after, "\n")
	effective, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return true
	}
	for _, bit := range dropCapabilities {
		if effective&(1<<bit) == 0 {
			return false
		}
	}
	return true
}
