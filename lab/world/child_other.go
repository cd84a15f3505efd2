//go:build !linux

package world

import "syscall"

// childAttributes has nothing to ask for: only Linux tells a child of its parent's death.
func childAttributes() *syscall.SysProcAttr { return nil }
