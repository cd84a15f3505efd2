package embeddedpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// host is the machine as this package sees it. Tests replace parts of it to
// reach the paths that their own machine doesn't have.
type host struct {
	root       string // put before every well-known path
	goos       string
	goarch     string
	euid       int
	getenv     func(string) string
	lookupUser func(name string) (*user.User, error)
	// run runs an installer or asks a program about itself, with env added to
	// our own environment, and returns all that it printed.
	run func(ctx context.Context, env []string, name string, args ...string) (string, error)
}

func thisHost(getenv func(string) string) host {
	if getenv == nil {
		getenv = os.Getenv
	}
	return host{
		root: "/", goos: runtime.GOOS, goarch: runtime.GOARCH, euid: os.Geteuid(),
		getenv: getenv, lookupUser: user.Lookup, run: runProgram,
	}
}

// runProgram ends a program that outlives ctx politely: an interrupted package
// manager should leave its database in order.
func runProgram(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("run %s: %w: %s", filepath.Base(name), err, lastLines(string(out), 5))
	}
	return string(out), nil
}

// inPath finds an executable in the PATH of getenv. This PATH need not be that
// of this process.
func (h host) inPath(name string) (string, bool) {
	for _, dir := range filepath.SplitList(h.getenv("PATH")) {
		if path := filepath.Join(dir, name); filepath.IsAbs(dir) && executable(path) {
			return path, true
		}
	}
	return "", false
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// serverEnv is the whole environment of initdb and the server. Ours is not
// passed on: PGDATA, PGPORT, PGTZ or a locale in it would change the cluster.
func (h host) serverEnv() []string {
	env := []string{"LC_ALL=C"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value := h.getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// lastLines returns the last n lines of text, without blank space around them.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// memory is a file system in memory, on Linux.
const memory = "/dev/shm"

// ScratchDir is the place for clusters that nobody keeps: in memory where there is room, unless TMPDIR names another
// place. Tests create and drop databases of 600 files each, and ext4 searches for a free inode past all that were freed
// in the last seconds: half of the CPU time of all tests went there.
func ScratchDir() string {
	if os.Getenv("TMPDIR") == "" && memoryHasRoom() {
		return memory
	}
	return os.TempDir()
}

// ScratchDirs are all places that ScratchDir may have named so far.
func ScratchDirs() []string { return []string{os.TempDir(), memory} }
