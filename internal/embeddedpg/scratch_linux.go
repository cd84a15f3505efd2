package embeddedpg

import "syscall"

const (
	tmpfsMagic = 0x01021994
	room       = 2 << 30 // the clusters of a whole run take less than half of it; containers have 64 MB as a rule
)

func memoryHasRoom() bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Type != tmpfsMagic {
		return false
	}
	const writeAndEnter = 0o3
	return fs.Bavail*uint64(fs.Bsize) >= room && syscall.Access(memory, writeAndEnter) == nil //nolint:gosec // a size is positive
}
