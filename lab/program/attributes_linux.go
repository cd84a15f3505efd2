package program

import "syscall"

// Attributes have a child die with us, however we end.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
