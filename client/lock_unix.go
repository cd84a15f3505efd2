//go:build unix && !solaris && !aix

package client

import (
	"errors"
	"os"
	"syscall"
)

// lock keeps other processes out until the file is closed, also by the death of this process.
func lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
