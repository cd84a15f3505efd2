package main

import "syscall"

// childAttributes have a child die with us, however we end.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
