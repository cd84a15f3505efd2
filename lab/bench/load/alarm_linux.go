package load

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// alarm is a timer of the kernel (timerfd_create(2)). The runtime's own are up to a millisecond late in a process that
// is otherwise idle, since epoll_wait counts in milliseconds: as much as a whole payment takes.
type alarm struct {
	fd     uintptr
	file   *os.File
	forget func() bool
}

const (
	clockMonotonic = 1
	timerFlags     = syscall.O_NONBLOCK | syscall.O_CLOEXEC
)

// newAlarm returns one that ctx ends.
func newAlarm(ctx context.Context) (*alarm, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, timerFlags, 0)
	if errno != 0 {
		return nil, fmt.Errorf("create timer: %w", errno)
	}
	// Non-blocking, so that the runtime's poller waits for it.
	a := &alarm{fd: fd, file: os.NewFile(fd, "timerfd")}
	a.forget = context.AfterFunc(ctx, func() { _ = a.file.SetReadDeadline(time.Unix(1, 0)) })
	return a, nil
}

// wait reports whether d is over; if not, ctx is.
func (a *alarm) wait(d time.Duration) bool {
	// The interval, which is none, and the time until the alarm.
	spec := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(d))}
	_, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, a.fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		return false
	}
	var expirations [8]byte
	_, err := a.file.Read(expirations[:])
	return err == nil
}

func (a *alarm) close() {
	a.forget()
	_ = a.file.Close()
}
