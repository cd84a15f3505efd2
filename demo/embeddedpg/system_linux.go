package embeddedpg

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
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

// attached lists the PostgreSQL processes whose working directory is the
// cluster: the postmaster and its children, which can outlive it. The pid file
// alone would miss those.
func attached(_ context.Context, cluster, _ string) []int {
	where, err := os.Stat(cluster)
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// The name comes first: a shell may stand in the directory as well.
		process := filepath.Join("/proc", entry.Name())
		name, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil || !strings.Contains(string(name), "postgres") {
			continue
		}
		if cwd, err := os.Stat(filepath.Join(process, "cwd")); err == nil && os.SameFile(cwd, where) {
			pids = append(pids, pid)
		}
	}
	return pids
}

const (
	tmpfsMagic = 0x01021994
	// A cluster of a test binary takes 200 MB, and go test runs a binary for each processor. Containers have 64 MB here
	// as a rule.
	roomPerProcessor = 512 << 20
	leastRoom        = 2 << 30
)

func memoryHasRoom() bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Type != tmpfsMagic {
		return false
	}
	const writeAndEnter = 0o3
	needed := max(leastRoom, uint64(runtime.NumCPU())*roomPerProcessor) //nolint:gosec // positive
	free := fs.Bavail * uint64(fs.Bsize)                                //nolint:gosec // positive
	return free >= needed && syscall.Access(memory, writeAndEnter) == nil
}
