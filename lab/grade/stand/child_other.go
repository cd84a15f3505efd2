//go:build !linux

package stand

import "syscall"

// childAttributes put a child and all that it starts into a group, which is signalled as one.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
