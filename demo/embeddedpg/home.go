package embeddedpg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// home is where everything is kept, and who runs the server there.
type home struct {
	dir string
	as  account
}

// chooseHome makes the data directory and finds an account that can enter it.
// If the account that root changes to can't, as below /root, another directory
// takes its place; the same one at every start.
func (h host) chooseHome(ctx context.Context, o Options, major int) (home, error) {
	// What can be no directory is not replaced by another one: its name is a mistake, which should be heard of.
	if existing := nearestExisting(o.DataDir); !isDirectory(existing) {
		return home{}, fmt.Errorf("%s is not a directory", existing)
	}
	err := errNoAccount
	for _, as := range h.accounts(owner(clusterDirectory(o.DataDir, major))) {
		if !h.canEnter(ctx, as, "/") {
			continue
		}
		if as.kind != dropped {
			return home{o.DataDir, as}, os.MkdirAll(o.DataDir, 0o700)
		}
		if err = h.makeEnterable(ctx, as, o.DataDir); err == nil {
			return home{o.DataDir, as}, nil
		}
		if dir := h.substitute(o.DataDir); h.makeEnterable(ctx, as, dir) == nil {
			o.Progress(fmt.Sprintf("%s cannot enter %s: keeping the database in %s", as.name, o.DataDir, dir))
			return home{dir, as}, nil
		}
	}
	if ctx.Err() != nil { // nothing can be tried then, so nothing has been learnt
		return home{}, context.Cause(ctx)
	}
	return home{}, err
}

// makeEnterable creates dir if the account will be able to enter it. Others may
// pass through such a directory, but not list it.
func (h host) makeEnterable(ctx context.Context, as account, dir string) error {
	if !h.canEnter(ctx, as, nearestExisting(filepath.Dir(dir))) {
		return fmt.Errorf("%s cannot enter %s", as.name, filepath.Dir(dir))
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		err = os.MkdirAll(dir, 0o711)
	}
	if err != nil || h.canEnter(ctx, as, dir) {
		return err
	}
	// Only a directory that holds nothing yet is opened: what else is in it may
	// rely on being out of reach. It is new when umask has closed it.
	if len(entries) == 0 {
		err = os.Chmod(dir, 0o711)
	}
	if err == nil && !h.canEnter(ctx, as, dir) {
		err = fmt.Errorf("%s cannot enter %s", as.name, dir)
	}
	return err
}

// substitute is the directory that stands in for one that the server's user cannot enter. Only root writes there.
func (h host) substitute(dataDir string) string {
	sum := sha256.Sum256([]byte(dataDir))
	return filepath.Join(h.root, "var/lib/payonce", hex.EncodeToString(sum[:4]))
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func nearestExisting(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// owner is the user id that path belongs to, 0 if there is no such path.
func owner(path string) int {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return 0
}
