package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// predecessorTimeout bounds the wait for a killed starter's server, which may
// have a checkpoint to write.
const predecessorTimeout = 60 * time.Second

var errPredecessorStays = errors.New("it does not end")

// awaitPredecessor makes sure that no server process uses the cluster. We hold
// the lock, so whatever runs is an orphan: its starter was killed. Two servers
// in one cluster would destroy it.
func awaitPredecessor(ctx context.Context, cluster string, progress func(string)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, predecessorTimeout, errPredecessorStays)
	defer cancel()
	pidFile := filepath.Join(cluster, "postmaster.pid")
	told := false
	for {
		pids := attached(ctx, cluster, pidFile)
		if len(pids) == 0 {
			return removeReused(pidFile)
		}
		if !told {
			told = true
			progress(fmt.Sprintf("waiting for the server of an earlier start (process %d) to end …", pids[0]))
			stopOrphan(pidFile, pids)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%w: %s is used by process %d: %w", ErrInUse, cluster, pids[0], err)
		}
	}
}

// stopOrphan asks the orphan for the shutdown that its death signal, where there
// is one, has asked for already; asking twice changes nothing.
func stopOrphan(pidFile string, attached []int) {
	for _, pid := range attached {
		if pid == postmaster(pidFile) {
			_ = syscall.Kill(pid, syscall.SIGINT)
		}
	}
}

// removeReused removes the file of a server that is gone, if its process id now
// belongs to somebody else: PostgreSQL would take that one for a server. It
// deals with ids that nobody has by itself.
func removeReused(pidFile string) error {
	pid := postmaster(pidFile)
	if pid == 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return nil
	}
	if err := os.Remove(pidFile); err != nil {
		return fmt.Errorf("remove stale postmaster.pid: %w", err)
	}
	return nil
}

// postmaster reads the process id in the first line of postmaster.pid, 0 if
// there is none.
func postmaster(pidFile string) int {
	content, err := os.ReadFile(pidFile)
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 0 {
		return 0
	}
	return pid
}
