package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrInUse says that another process runs this data directory.
var ErrInUse = errors.New("data directory in use")

// directoryLock is an flock. The system gives it up when its holder dies, so
// there is no stale lock; the file stays, because removing it would let two
// starters lock two files of the same name.
type directoryLock struct{ file *os.File }

// lockDirectory takes the lock of dir, or errors with ErrInUse at once.
func lockDirectory(dir string) (*directoryLock, error) {
	path := filepath.Join(dir, "lock")
	// NOFOLLOW: as root we may be in a directory that somebody else can write to.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := flock(file, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = file.Close() }()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is run by %s", ErrInUse, dir, holder(file))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	held := &directoryLock{file}
	if err := held.sign(); err != nil {
		held.release()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return held, nil
}

// awaitLock takes the lock of dir as soon as it is free.
func awaitLock(ctx context.Context, dir string) (*directoryLock, error) {
	for {
		held, err := lockDirectory(dir)
		if !errors.Is(err, ErrInUse) {
			return held, err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// sign writes our process id into the file, for ErrInUse to name.
func (l *directoryLock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func holder(file *os.File) string {
	content, err := io.ReadAll(io.LimitReader(file, 32))
	if pid := strings.TrimSpace(string(content)); err == nil && pid != "" {
		return "process " + pid
	}
	return "another process"
}

// release unlocks explicitly: closing alone would leave the lock with a child
// that some other goroutine is just forking, until that child execs.
func (l *directoryLock) release() {
	_ = flock(l.file, syscall.LOCK_UN)
	_ = l.file.Close()
}

func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// pause waits for d, or errors when ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

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
