package pgtest

import "syscall"

const (
	tmpfsMagic  = 0x01021994
	roomToStart = 2 << 30 // the clusters of a whole run take less than half of it
)

// inMemory is a file system in memory with room for our clusters, or "". Containers have 64 MB of it as a rule.
func inMemory() string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Type != tmpfsMagic || fs.Bavail*uint64(fs.Bsize) < roomToStart { //nolint:gosec // a size
		return ""
	}
	if err := syscall.Access(memory, 0o3); err != nil { // to write and to enter
		return ""
	}
	return memory
}
