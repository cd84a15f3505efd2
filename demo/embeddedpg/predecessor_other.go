//go:build unix && !linux

package embeddedpg

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
)

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
