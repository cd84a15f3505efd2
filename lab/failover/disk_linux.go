package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// errNoDisk says that we may not mount anything.
var errNoDisk = errors.New("no right to mount a small disk: run it as root, or in namespaces of its own by unshare -Urm")

// disk is a small one, in memory. While it is full, whatever becomes free is taken at once.
type disk struct {
	dir string

	stop chan struct{}
	done sync.WaitGroup
}

// megabytes are enough for a cluster, two databases and their log, and are gone soon.
const megabytes = 256

func mountDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	err := syscall.Mount("payonce", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0711", megabytes))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return nil, errNoDisk
	}
	if err != nil {
		return nil, fmt.Errorf("mount a small disk: %w", err)
	}
	return &disk{dir: dir}, nil
}

// fill takes all the room there is, and returns when nothing is left.
func (d *disk) fill() error {
	file, err := os.Create(filepath.Join(d.dir, "filler"))
	if err != nil {
		return err
	}
	if err := takeAll(file); err != nil {
		return errors.Join(err, file.Close())
	}
	d.stop = make(chan struct{})
	d.done.Go(func() {
		defer func() { _ = file.Close() }()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-d.stop:
				return
			case <-tick.C:
				_ = takeAll(file)
			}
		}
	})
	return nil
}

func takeAll(file *os.File) error {
	page := make([]byte, 4096)
	for {
		if _, err := file.Write(page); errors.Is(err, syscall.ENOSPC) || errors.Is(err, io.ErrShortWrite) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// clear gives the room back.
func (d *disk) clear() error {
	if d.stop == nil {
		return nil
	}
	close(d.stop)
	d.done.Wait()
	d.stop = nil
	return os.Remove(filepath.Join(d.dir, "filler"))
}

// unmount ends the disk, and whatever is on it.
func (d *disk) unmount() error {
	return errors.Join(d.clear(), syscall.Unmount(d.dir, syscall.MNT_DETACH))
}
