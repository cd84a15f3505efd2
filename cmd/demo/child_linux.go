package main

import "syscall"

// childAttributes puts a child into a process group of its own: a terminal sends Ctrl-C to the whole group of the demo,
// and the demo decides when its children stop. The kernel kills the child when this process is gone.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
