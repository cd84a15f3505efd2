package stand

import "syscall"

// childAttributes put a child and all that it starts into a group, which is signalled as one. The child dies with us,
// however we end.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
