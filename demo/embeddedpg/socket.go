package embeddedpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

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
	lasting := socketDirectory{dir: filepath.Join(at.dir, "run")}
	err := h.openLasting(ctx, at.as, lasting)
	if err == nil {
		return lasting, nil
	}
	for _, parent := range []string{cmp.Or(h.getenv("TMPDIR"), "/tmp"), "/tmp"} {
		dir, mkdirErr := os.MkdirTemp(parent, "payonce-pg-")
		if mkdirErr != nil {
			err = errors.Join(err, mkdirErr)
			continue
		}
		fresh := socketDirectory{dir: dir, temporary: true}
		checkErr := h.checkSocket(ctx, at.as, fresh)
		if checkErr == nil {
			return fresh, nil
		}
		fresh.remove()
		err = errors.Join(err, checkErr)
	}
	return socketDirectory{}, err
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
