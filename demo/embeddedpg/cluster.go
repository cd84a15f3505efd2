package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// superuser owns the cluster. A client that reaches the socket may use this role.
const superuser = "payonce"

const (
	// marker is written into a cluster once initdb has succeeded.
	marker = "payonce.complete"
	// unfinished begins the names of the directories that initdb works in.
	unfinished = "initdb-"
)

func clusterDirectory(dataDir string, major int) string {
	return filepath.Join(dataDir, "pg"+strconv.Itoa(major))
}

// ensureCluster creates the cluster unless it exists.
func (h host) ensureCluster(ctx context.Context, at home, cluster string, programs Binaries, o Options) error {
	if err := removeUnfinished(at.dir); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(cluster, marker))
	if err == nil {
		return at.as.adopt(cluster)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if entries, err := os.ReadDir(cluster); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s holds something else: move it away", cluster)
	}
	o.Progress(fmt.Sprintf("creating the cluster in %s (PostgreSQL %s) …", cluster, programs.Version))
	scratch, err := os.MkdirTemp(at.dir, unfinished)
	if err != nil {
		return err
	}
	if err := h.fillCluster(ctx, at.as, scratch, programs, o.Durable); err != nil {
		return errors.Join(err, os.RemoveAll(scratch))
	}
	if err := os.Rename(scratch, cluster); err != nil {
		return errors.Join(err, os.RemoveAll(scratch))
	}
	return syncDirectory(at.dir)
}

// fillCluster runs initdb and sets the marker.
func (h host) fillCluster(ctx context.Context, as account, dir string, programs Binaries, durable bool) error {
	if err := as.own(dir); err != nil {
		return err
	}
	// Trust is safe: the socket's directory lets nobody in but us.
	args := []string{"-D", dir, "-U", superuser, "--auth-local=trust", "--auth-host=reject",
		"--encoding=UTF8", "--locale=C", "--no-instructions"}
	if !durable {
		args = append(args, "--no-sync")
	}
	if out, err := runAs(h.commandAs(ctx, as, dir, programs.Path("initdb"), args...)); err != nil {
		return fmt.Errorf("run initdb: %w: %s", err, lastLines(out, 10))
	}
	file, err := os.OpenFile(filepath.Join(dir, marker), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(programs.Version + "\n")
	return errors.Join(err, file.Sync(), file.Close(), as.own(file.Name()))
}

// removeUnfinished clears what a killed initdb has left. Nobody else works
// here: we hold the lock.
func removeUnfinished(dataDir string) error {
	entries, err := os.ReadDir(dataDir)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), unfinished) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dataDir, entry.Name())))
		}
	}
	return err
}

// own gives a file that we have just created to the account.
func (a account) own(path string) error {
	if a.kind != dropped {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// adopt gives a whole cluster to the account if somebody else ran it before,
// such as root itself in a user namespace.
func (a account) adopt(cluster string) error {
	if owner(cluster) == a.uid {
		return nil
	}
	return filepath.WalkDir(cluster, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, a.uid, a.gid)
	})
}

func syncDirectory(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

const (
	socketFile = ".s.PGSQL." + port
	// maxSocketPath is what fits into sun_path of every system: 104 bytes with
	// the final zero on macOS, 108 on Linux.
	maxSocketPath = 103
)

// socketDirectory is where the server's socket is. Who may enter it may use the
// database, so it belongs to the server's user and is closed to all others.
type socketDirectory struct {
	dir       string
	temporary bool // made for this start, in a place that others use too
}

// openSocketDirectory prefers the data directory, where the next start finds
// what this one may leave. Its path may be too long, though, or its file system
// unable to hold sockets.
func (h host) openSocketDirectory(ctx context.Context, at home) (socketDirectory, error) {
	lasting := socketDirectory{dir: filepath.Join(at.dir, SocketFolder)}
	err := h.openLasting(ctx, at.as, lasting)
	if err == nil {
		return lasting, nil
	}
	dir, mkdirErr := os.MkdirTemp("/tmp", "payonce-pg-") // the shortest path that every system has
	if mkdirErr != nil {
		return socketDirectory{}, errors.Join(err, mkdirErr)
	}
	fresh := socketDirectory{dir: dir, temporary: true}
	if checkErr := h.checkSocket(ctx, at.as, fresh); checkErr != nil {
		fresh.remove()
		return socketDirectory{}, errors.Join(err, checkErr)
	}
	return fresh, nil
}

func (h host) openLasting(ctx context.Context, as account, lasting socketDirectory) error {
	// A killed server leaves a lock file with a process id in it, which blocks
	// the next one if that id has been given to another process meanwhile.
	if err := os.RemoveAll(lasting.dir); err != nil {
		return err
	}
	if err := os.Mkdir(lasting.dir, 0o700); err != nil {
		return err
	}
	return h.checkSocket(ctx, as, lasting)
}

// checkSocket gives the directory to the account and tries it.
func (h host) checkSocket(ctx context.Context, as account, s socketDirectory) error {
	path := filepath.Join(s.dir, socketFile)
	if len(path) > maxSocketPath {
		return fmt.Errorf("socket path of %d bytes is too long: %s", len(path), path)
	}
	var config net.ListenConfig
	trial, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	if err := errors.Join(trial.Close(), as.own(s.dir)); err != nil {
		return err
	}
	if !h.canEnter(ctx, as, s.dir) {
		return fmt.Errorf("%s cannot enter %s", as.name, s.dir)
	}
	return nil
}

// remove clears a temporary directory away.
func (s socketDirectory) remove() {
	if s.temporary {
		_ = os.RemoveAll(s.dir)
	}
}
