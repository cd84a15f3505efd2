//go:build !linux

package program

import "syscall"

// Attributes has nothing to ask for: only Linux tells a child of its parent's death.
func Attributes() *syscall.SysProcAttr { return nil }
