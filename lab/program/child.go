package program

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts cmd, which dies with this process, however that ends. The channel is closed when the child has ended.
// How it ended is in its log. If the child leads a group (Group), what it has left behind ends with it.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	done, started := make(chan struct{}), make(chan error)
	go func() {
		// The child is told to die with the thread that has started it. So this one stays.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait()
		if cmd.SysProcAttr != nil && cmd.SysProcAttr.Setpgid {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		close(done)
	}()
	err = <-started
	return done, err
}

// Group are the attributes of a child that leads a group of its own: all that it starts is signalled with it.
func Group() *syscall.SysProcAttr {
	attributes := Attributes()
	if attributes == nil {
		attributes = &syscall.SysProcAttr{}
	}
	attributes.Setpgid = true
	return attributes
}

// LastWords are the last bytes of a log.
func LastWords(log string, most int) (string, error) {
	raw, err := os.ReadFile(log)
	if err != nil {
		return "", err
	}
	return string(raw[max(0, len(raw)-most):]), nil
}
