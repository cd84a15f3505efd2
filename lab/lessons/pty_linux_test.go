package lessons

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// onTerminal starts a command on a terminal of its own, as a reader does. The returned file is the other end.
func onTerminal(command *exec.Cmd) (*os.File, error) {
	us, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	// Not by us.Fd(): it would make each read block, also after Close.
	raw, err := us.SyscallConn()
	if err != nil {
		return nil, err
	}
	var number int
	var failed error
	err = raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed == nil {
			number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("unlock the terminal: %w", err)
	}
	them, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = them.Close() }() // the command has its own
	command.Stdin, command.Stdout, command.Stderr = them, them, them
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return us, command.Start()
}
