package embeddedpg

import (
	"runtime"
	"syscall"
)

const (
	tmpfsMagic = 0x01021994
	// A cluster of a test binary takes 200 MB, and go test runs a binary for each processor. Containers have 64 MB here
	// as a rule.
	roomPerProcessor = 512 << 20
	leastRoom        = 2 << 30
)

func memoryHasRoom() bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Type != tmpfsMagic {
		return false
	}
	const writeAndEnter = 0o3
	needed := max(leastRoom, uint64(runtime.NumCPU())*roomPerProcessor) //nolint:gosec // positive
	free := fs.Bavail * uint64(fs.Bsize)                                //nolint:gosec // positive
	return free >= needed && syscall.Access(memory, writeAndEnter) == nil
}
