package meter

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5"

	"payonce/lab/bench/report"
)

// Describe tells what a run was measured on: the machine, the server behind conn (none if nil), and the commit of the
// checkout in dir. It works on any system; what is not known stays empty.
func Describe(ctx context.Context, conn *pgx.Conn, dir string) (report.Machine, error) {
	proc := os.DirFS("/proc")
	machine := report.Machine{
		CPU:    cpuModel(proc),
		Cores:  runtime.NumCPU(),
		Memory: memorySize(proc),
		System: runtime.GOOS + "/" + runtime.GOARCH,
		Kernel: firstLine(proc, "sys/kernel/osrelease"),
		Go:     runtime.Version(),
	}
	machine.Commit, machine.Dirty = checkout(ctx, dir)
	if conn == nil {
		return machine, nil
	}
	err := unseen(ctx, conn, func(tx pgx.Tx) (err error) {
		machine.PostgreSQL, machine.PostgreSQLSettings, err = serverTx(ctx, tx)
		return err
	})
	if err != nil {
		return report.Machine{}, fmt.Errorf("describe PostgreSQL: %w", err)
	}
	return machine, nil
}

// cpuModel is what /proc/cpuinfo calls it. On ARM, where it has numbers only, there is no model.
func cpuModel(proc fs.FS) string {
	text, err := fs.ReadFile(proc, "cpuinfo")
	if err != nil {
		return ""
	}
	return valueOf(text, "model name")
}

func memorySize(proc fs.FS) int64 {
	text, err := fs.ReadFile(proc, "meminfo")
	if err != nil {
		return 0
	}
	size, err := kilobytes(text, "MemTotal")
	if err != nil {
		return 0
	}
	return size
}

func firstLine(proc fs.FS, name string) string {
	text, err := fs.ReadFile(proc, name)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// checkout is the commit and whether files differ from it; nothing without git, or outside of a checkout.
func checkout(ctx context.Context, dir string) (commit string, dirty bool) {
	ask := func(args ...string) (string, error) {
		// One that is owned by somebody else is common in containers.
		git := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*"}, args...)...)
		git.Dir = dir
		answer, err := git.Output()
		return strings.TrimSpace(string(answer)), err
	}
	commit, err := ask("rev-parse", "--verify", "HEAD")
	if err != nil {
		return "", false
	}
	changes, err := ask("status", "--porcelain")
	return commit, err != nil || changes != ""
}

// serverTx reads the version and what somebody has set on the server or for the database. What our own session has set
// for itself is left out, and so is what the server derives; places on the disk say nothing about speed, but whose
// machine it was.
func serverTx(ctx context.Context, tx pgx.Tx) (version string, settings []report.Setting, err error) {
	if err := tx.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&version); err != nil {
		return "", nil, err
	}
	rows, err := tx.Query(ctx, `SELECT name, current_setting(name) FROM pg_settings
		WHERE source NOT IN ('default', 'override', 'client', 'session', 'interactive')
			AND setting !~ '(^|[", ])/' AND setting IS DISTINCT FROM boot_val
		ORDER BY name`)
	if err != nil {
		return "", nil, err
	}
	settings, err = pgx.CollectRows(rows, pgx.RowToStructByPos[report.Setting])
	return version, settings, err
}
