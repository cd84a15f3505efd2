package embeddedpg

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

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
