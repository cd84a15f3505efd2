package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"payonce/demo/embeddedpg"
)

const (
	homePrefix = "payonce-pgtest-"
	homeLock   = "owner"
	// abandonedAfter is how long a directory may be without its lock, because its owner is between two lines of open.
	// After that, the directory is abandoned.
	abandonedAfter = time.Minute
)

// home is the directory of this test binary.
//
//nolint:gochecknoglobals // a test binary has no other place for what its tests share
var home directory

// directory holds the data directories of all clusters that this process
// starts. A lock inside says that the process lives.
type directory struct {
	once sync.Once
	path string
	lock *os.File
	err  error
	next int
	mu   sync.Mutex
}

// newDataDir returns a path for one more cluster.
func (d *directory) newDataDir() (string, error) {
	if err := d.ensure(); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	return filepath.Join(d.path, fmt.Sprint(d.next)), nil
}

// ensure makes the directory, the first time.
func (d *directory) ensure() error {
	d.once.Do(func() { d.err = d.open() })
	if d.err != nil {
		return fmt.Errorf("make directory for clusters: %w", d.err)
	}
	return nil
}

func (d *directory) open() error {
	for _, parent := range embeddedpg.ScratchDirs() {
		sweep(parent)
	}
	path, err := os.MkdirTemp(embeddedpg.ScratchDir(), homePrefix)
	if err != nil {
		return err
	}
	d.path = path
	// As root, the server runs as another user, who must be able to pass.
	if err := os.Chmod(path, 0o711); err != nil {
		return err
	}
	d.lock, err = os.OpenFile(filepath.Join(path, homeLock), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX)
}

func (d *directory) close() error {
	if d.path == "" {
		return nil
	}
	return os.RemoveAll(d.path)
}

// sweep removes the directories of test binaries that were killed. Their servers
// went with them.
func sweep(parent string) {
	left, err := filepath.Glob(filepath.Join(parent, homePrefix+"*"))
	if err != nil {
		return
	}
	for _, path := range left {
		if info, err := os.Lstat(path); err == nil && info.IsDir() && ours(info) && abandoned(path, info) {
			_ = os.RemoveAll(path)
		}
	}
}

func ours(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// abandoned tells whether nobody holds the lock in a directory.
func abandoned(path string, info os.FileInfo) bool {
	file, err := os.Open(filepath.Join(path, homeLock))
	if err != nil {
		return time.Since(info.ModTime()) > abandonedAfter
	}
	defer func() { _ = file.Close() }()
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil &&
		time.Since(info.ModTime()) > abandonedAfter
}
