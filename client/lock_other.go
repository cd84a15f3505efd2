//go:build !unix || solaris || aix

package client

import (
	"errors"
	"fmt"
	"os"
)

// lock refuses: without a lock, two processes could send two keys for one intent. Bring a Store of your own.
func lock(file *os.File) error {
	return fmt.Errorf("lock %s: %w", file.Name(), errors.ErrUnsupported)
}
